// The epochs metric: the I/O and the regions of each epoch. The time metric, which runs before,
// finds when epochs ran and how their time was spent.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>

#include "analyze/call_traits.h"
#include "analyze/profile/profile.h"
#include "analyze/scan.h"
#include "base/concurrency/mutex.h"
#include "trace/read/columns.h"

namespace millrace::analyze {
namespace {

// Adds one call. Times stay on the clock of the trace. REQUIRES: the event is a call that does I/O.
void count_io(const trace::EventColumns& columns, size_t i, const CallTraits& traits,
              IoTotals& totals) {
  using wire::CallKind;
  const uint64_t begin_ns = columns.begin_ns[i];
  const uint64_t duration_ns = columns.duration_ns[i];
  const bool failed = columns.error[i] != 0;
  const bool moved = !failed && columns.result[i] > 0;
  const uint64_t bytes = moved ? static_cast<uint64_t>(columns.result[i]) : 0;
  totals.first_ns = std::min(totals.first_ns, begin_ns);
  totals.last_ns = std::max(totals.last_ns, begin_ns + duration_ns);
  totals.errors += failed ? 1 : 0;
  switch (traits.kind) {
    case CallKind::kTransfer:
      ++totals.writes;
      totals.bytes_written += bytes;
      [[fallthrough]];
    case CallKind::kRead:
      ++totals.reads;
      totals.read_ns += duration_ns;
      totals.bytes_read += bytes;
      return;
    case CallKind::kWrite:
      ++totals.writes;
      totals.write_ns += duration_ns;
      totals.bytes_written += bytes;
      return;
    case CallKind::kSync:
      ++totals.syncs;
      totals.write_ns += duration_ns;
      return;
    case CallKind::kOpen:
      ++totals.opens;
      break;
    case CallKind::kSeek:
      ++totals.seeks;
      break;
    case CallKind::kMap:
      ++totals.maps;
      break;
    case CallKind::kMetadata:
    case CallKind::kDirectory:
    case CallKind::kOther:
      ++totals.metadata;
      break;
    default:
      break;
  }
  totals.metadata_ns += duration_ns;
}

struct ActionKey {
  int64_t epoch = -1;
  trace::NameIndex name{};
  uint32_t group = 0;

  auto operator<=>(const ActionKey&) const = default;
};

struct ActionSum {
  uint64_t count = 0;
  uint64_t time_ns = 0;
};

// The actions of one block. Regions repeat in a short cycle (read, decode, read, ...). The last few
// are cached, because a lookup in the map would take longer than everything else here.
class BlockActions {
 public:
  ActionSum& at(int64_t epoch, trace::NameIndex name) {
    for (const Recent& recent : recent_) {
      if (recent.epoch == epoch && recent.name == name && recent.sum != nullptr) return *recent.sum;
    }
    ActionSum& sum = sums_[{.epoch = epoch, .name = name, .group = 0}];
    recent_[next_++ % recent_.size()] = {epoch, name, &sum};
    return sum;
  }

  const std::map<ActionKey, ActionSum>& sums() const { return sums_; }

 private:
  struct Recent {
    int64_t epoch = -1;
    trace::NameIndex name{};
    ActionSum* sum = nullptr;
  };
  std::map<ActionKey, ActionSum> sums_;  // pointers to entries stay valid
  std::array<Recent, 8> recent_;
  size_t next_ = 0;
};

template <typename T>
void put_all(const T& value, std::vector<std::byte>& out) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

class EpochsMetric final : public Metric {
 public:
  EpochsMetric(const Context& context, const Limits& limits)
      : context_(context), action_count_max_(limits.groups) {}

  void observe(const Block& block) override;
  void save(std::vector<std::byte>& out) const override;
  Status merge(ByteReader& saved) override;
  void finish(const Context& context, Profile& profile) override;

 private:
  // The number of ranks in each epoch.
  std::map<int64_t, uint64_t> count_ranks() const;
  std::vector<EpochAction> actions_of(int64_t epoch, uint64_t rank_count) const REQUIRES(mutex_);

  const Context& context_;
  const size_t action_count_max_;
  mutable Mutex mutex_;
  std::map<int64_t, IoTotals> io_ GUARDED_BY(mutex_);
  std::map<ActionKey, ActionSum> actions_ GUARDED_BY(mutex_);
};

void EpochsMetric::observe(const Block& block) {
  const auto group = static_cast<uint32_t>(block.group);
  if (context_.epochs.epochs(group).empty()) return;
  const trace::EventColumns& columns = block.columns;
  EpochCursor epochs(context_.epochs.reading(group));
  std::map<int64_t, IoTotals> io;
  IoTotals* totals = nullptr;
  int64_t totals_epoch = -1;
  BlockActions actions;
  for (size_t i = 0; i < columns.size_events(); ++i) {
    const CallTraits& traits = traits_of(columns.call[i]);
    if (columns.call[i] == wire::Call::kRegion) {
      if (context_.role(columns.file[i]) == Role::kEpoch) continue;
      const bool carries_epoch = columns.size[i] != wire::kNoEpoch;
      const int64_t epoch =
          carries_epoch ? static_cast<int64_t>(columns.size[i]) : epochs.at(columns.begin_ns[i]);
      if (epoch < 0) continue;
      ActionSum& sum = actions.at(epoch, columns.file[i]);
      ++sum.count;
      sum.time_ns += columns.duration_ns[i];
      continue;
    }
    if (!traits.io || !counts_bytes(context_, traits.layer)) continue;
    const int64_t epoch = epochs.at(columns.begin_ns[i]);
    if (epoch < 0) continue;
    if (totals == nullptr || epoch != totals_epoch) {
      totals = &io[epoch];
      totals_epoch = epoch;
    }
    count_io(columns, i, traits, *totals);
  }
  const MutexLock lock(mutex_);
  for (const auto& [epoch, of] : io) io_[epoch] += of;
  for (const auto& [key, of] : actions.sums()) {
    ActionSum& sum = actions_[{.epoch = key.epoch, .name = key.name, .group = group}];
    sum.count += of.count;
    sum.time_ns += of.time_ns;
  }
}

void EpochsMetric::save(std::vector<std::byte>& out) const {
  const MutexLock lock(mutex_);
  put_all(uint64_t{io_.size()}, out);
  for (const auto& [epoch, totals] : io_) {
    put_all(epoch, out);
    put_all(totals, out);
  }
  put_all(uint64_t{actions_.size()}, out);
  for (const auto& [key, sum] : actions_) {
    put_all(key.epoch, out);
    put_all(static_cast<uint32_t>(key.name), out);
    put_all(key.group, out);
    put_all(sum, out);
  }
}

Status EpochsMetric::merge(ByteReader& saved) {
  const MutexLock lock(mutex_);
  std::map<int64_t, IoTotals> io;
  std::map<ActionKey, ActionSum> actions;
  ASSIGN_OR_RETURN(const auto io_count, saved.read<uint64_t>());
  for (uint64_t i = 0; i < io_count; ++i) {
    ASSIGN_OR_RETURN(const auto epoch, saved.read<int64_t>());
    ASSIGN_OR_RETURN(io[epoch], saved.read<IoTotals>());
  }
  ASSIGN_OR_RETURN(const auto action_count, saved.read<uint64_t>());
  for (uint64_t i = 0; i < action_count; ++i) {
    ActionKey key;
    ASSIGN_OR_RETURN(key.epoch, saved.read<int64_t>());
    ASSIGN_OR_RETURN(const auto name, saved.read<uint32_t>());
    ASSIGN_OR_RETURN(key.group, saved.read<uint32_t>());
    if (name >= context_.trace.names().size() || key.group >= context_.groups.size()) {
      return fail(Errc::kCorrupt,
                  "saved actions refer to name {} of group {}, which this trace does not have",
                  name, key.group);
    }
    key.name = trace::NameIndex{name};
    ASSIGN_OR_RETURN(actions[key], saved.read<ActionSum>());
  }
  for (const auto& [epoch, totals] : io) io_[epoch] += totals;
  for (const auto& [key, sum] : actions) {
    actions_[key].count += sum.count;
    actions_[key].time_ns += sum.time_ns;
  }
  return {};
}

std::map<int64_t, uint64_t> EpochsMetric::count_ranks() const {
  std::map<int64_t, uint64_t> counts;
  for (uint32_t group = 0; group < context_.groups.size(); ++group) {
    for (const EpochSpan& span : context_.epochs.epochs(group)) ++counts[span.epoch];
  }
  return counts;
}

std::vector<EpochAction> EpochsMetric::actions_of(int64_t epoch, uint64_t rank_count) const {
  std::vector<EpochAction> list;
  auto at = actions_.lower_bound({.epoch = epoch, .name = {}, .group = 0});
  while (at != actions_.end() && at->first.epoch == epoch) {
    const trace::NameIndex name = at->first.name;
    EpochAction action{.name = std::string(context_.trace.name(name)), .role = context_.role(name)};
    uint64_t sum_ns = 0;
    uint64_t ranks = 0;
    action.min_ns = ~uint64_t{0};
    for (; at != actions_.end() && at->first.epoch == epoch && at->first.name == name; ++at) {
      action.count += at->second.count;
      sum_ns += at->second.time_ns;
      action.min_ns = std::min(action.min_ns, at->second.time_ns);
      action.max_ns = std::max(action.max_ns, at->second.time_ns);
      ++ranks;
    }
    // Ranks that did not do this in the epoch spent no time on it.
    if (ranks < rank_count) action.min_ns = 0;
    action.mean_ns = sum_ns / std::max(ranks, rank_count);
    list.push_back(std::move(action));
  }
  std::sort(list.begin(), list.end(), [](const EpochAction& a, const EpochAction& b) {
    return std::tie(b.mean_ns, a.name) < std::tie(a.mean_ns, b.name);
  });
  if (list.size() > action_count_max_) list.resize(action_count_max_);
  return list;
}

void EpochsMetric::finish(const Context& context, Profile& profile) {
  const MutexLock lock(mutex_);
  std::map<int64_t, uint64_t> rank_counts = count_ranks();
  for (EpochStats& stats : profile.epochs) {
    if (const auto found = io_.find(stats.epoch); found != io_.end()) {
      stats.io = found->second;
      stats.io.first_ns -= std::min(stats.io.first_ns, context.begin_ns);
      stats.io.last_ns -= std::min(stats.io.last_ns, context.begin_ns);
    }
    stats.actions = actions_of(stats.epoch, rank_counts[stats.epoch]);
  }
}

}  // namespace

std::unique_ptr<Metric> make_epochs_metric(const Context& context, const Limits& limits) {
  return std::make_unique<EpochsMetric>(context, limits);
}

}  // namespace millrace::analyze
