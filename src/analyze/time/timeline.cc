// Timelines: operations, bytes and busy time in equal bins of the job's time, when each rank was
// busy, and the epochs and checkpoints to draw below.
//
// Operations, bytes and busy time come from the calls whose bytes count (counts_bytes): an H5Dread
// and the pread within it are one operation, not two. An operation counts where it began. Its bytes
// and its time are distributed over the bins that it crosses, as integers that add up.
//
// The heat map is a union of intervals for each thread within a block, over all layers. Concurrent
// work of several threads or processes of a rank is summed and capped at the whole bin. The result
// is exact for a rank that does one thing at a time, and an upper bound for others. The exact
// unions need the intervals of all blocks together; the time split has them.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "analyze/block_threads.h"
#include "analyze/scan.h"
#include "analyze/time/busy_bins.h"
#include "analyze/time/time_bins.h"
#include "base/concurrency/mutex.h"

namespace millrace::analyze {
namespace {

using trace::EventColumns;

constexpr size_t kStretchesMax = 5000;

// One cache line. The *_step members apply to this bin and all that follow, so a call across many
// bins costs no more than one across three. They go up and down and wrap around; their running sums
// do not.
struct Bin {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t operations = 0;
  uint64_t metadata = 0;
  uint64_t busy_ns = 0;
  uint64_t read_step = 0;
  uint64_t written_step = 0;
  uint64_t busy_step = 0;
};
static_assert(sizeof(Bin) == 64);

enum Activity : uint8_t { kIo = 0, kCompute, kWait };
constexpr size_t kActivityCount = 3;

// For each activity, how busy the threads of one rank were in one bin of the heat map.
using HeatBins = std::array<std::vector<BusyBin>, kActivityCount>;

struct Found {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  int64_t epoch = -1;
  uint32_t group = 0;
  uint32_t name = 0;

  uint64_t length_ns() const { return end_ns - begin_ns; }
};
static_assert(sizeof(Found) == 32);

// Longest first. A total order, so that the same ones are cut off whatever came first.
bool is_longer(const Found& a, const Found& b) {
  const auto rest = [](const Found& of) {
    return std::tuple(of.begin_ns, of.group, of.name, of.epoch);
  };
  return a.length_ns() != b.length_ns() ? a.length_ns() > b.length_ns() : rest(a) < rest(b);
}

void cut(std::vector<Found>& found) {
  if (found.size() <= kStretchesMax) return;
  std::nth_element(found.begin(), found.begin() + kStretchesMax, found.end(), is_longer);
  found.resize(kStretchesMax);
}

bool is_drawn(Role role) {
  return role == Role::kEpoch || role == Role::kCheckpoint || role == Role::kEvaluate ||
         role == Role::kRestore;
}

struct Seen {
  std::vector<Bin> bins;
  HeatBins heat;  // per activity: the bins of all shown ranks, concatenated
  std::vector<Found> stretches;

  void add(const Seen& other, size_t heat_at) {
    for (size_t i = 0; i < other.bins.size(); ++i) {
      const Bin& from = other.bins[i];
      Bin& to = bins[i];
      to.bytes_read += from.bytes_read;
      to.bytes_written += from.bytes_written;
      to.operations += from.operations;
      to.metadata += from.metadata;
      to.busy_ns += from.busy_ns;
      to.read_step += from.read_step;
      to.written_step += from.written_step;
      to.busy_step += from.busy_step;
    }
    for (size_t of = 0; of < kActivityCount; ++of) {
      for (size_t i = 0; i < other.heat[of].size(); ++i) {
        heat[of][heat_at + i].busy_ns += other.heat[of][i].busy_ns;
        heat[of][heat_at + i].step += other.heat[of][i].step;
      }
    }
    stretches.insert(stretches.end(), other.stretches.begin(), other.stretches.end());
    // Not for every block, because a cut goes through all of them.
    if (stretches.size() > 2 * kStretchesMax) cut(stretches);
  }
};

// The bins, the same for all blocks.
struct Plan {
  Plan(const Context& context, const Limits& limits)
      : length_ns(context.end_ns - context.begin_ns),
        time(length_ns, limits.timeline_bins),
        heat(length_ns, limits.heat_bins),
        heat_place(context.groups.size(), kNotShown) {
    std::vector<uint32_t> ranks;
    for (uint32_t i = 0; i < context.groups.size(); ++i) {
      if (context.groups[i].trains) ranks.push_back(i);
    }
    const size_t count = std::min(ranks.size(), limits.heat_ranks);
    for (size_t i = 0; i < count; ++i) {
      shown.push_back(ranks[i * ranks.size() / count]);
      heat_place[shown.back()] = i;
    }
  }

  static constexpr size_t kNotShown = std::numeric_limits<size_t>::max();
  uint64_t length_ns;
  TimeBins time;
  TimeBins heat;
  std::vector<size_t> heat_place;  // by group: index among the shown ranks
  std::vector<uint32_t> shown;     // the groups in the heat map
};

// Reads a block from its end. The events of a thread then end earlier and earlier, so their union
// needs no sorting.
class BlockGatherer {
  using Unions = std::array<BackwardUnion, kActivityCount>;

  auto heater(size_t activity) {
    return [this, activity](const Span& span) {
      add_busy(plan_.heat, heat_cursor_, span, seen_.heat[activity]);
    };
  }

 public:
  BlockGatherer(const Plan& plan, const Block& block)
      : plan_(plan),
        block_(block),
        threads_(block.columns.thread),
        cursor_(plan.time),
        heat_cursor_(plan.heat),
        is_main_(group().main == block.process),
        is_shown_(plan.heat_place[static_cast<size_t>(block.group)] != Plan::kNotShown) {
    seen_.bins.resize(plan.time.count());
    if (!is_shown_) return;
    for (auto& bins : seen_.heat) bins.resize(plan.heat.count());
  }

  Seen gather() {
    const EventColumns& columns = block_.columns;
    const std::array<bool, kLayerCount> counts = counted_layers();
    for (size_t i = columns.size_events(); i-- > 0;) {
      const CallTraits& traits = traits_of(columns.call[i]);
      if (traits.io) {
        const Span span = span_of(i);
        if (counts[static_cast<size_t>(traits.layer)]) count_call(traits.kind, i, span);
        if (is_shown_) heat_up(kIo, columns.thread[i], span);
      } else if (traits.region) {
        look_at_region(i);
      }
    }
    for (Unions& unions : threads_.values()) {
      for (size_t of = 0; of < kActivityCount; ++of) unions[of].finish(heater(of));
    }
    return std::move(seen_);
  }

 private:
  const Group& group() const { return block_.context.groups[static_cast<size_t>(block_.group)]; }

  std::array<bool, kLayerCount> counted_layers() const {
    std::array<bool, kLayerCount> counts = {};
    for (size_t i = 0; i < kLayerCount; ++i) {
      counts[i] = counts_bytes(block_.context, static_cast<Layer>(i));
    }
    return counts;
  }

  Span span_of(size_t i) const {
    return span_in_job(block_.context, block_.columns.begin_ns[i], block_.columns.duration_ns[i]);
  }

  void count_call(wire::CallKind kind, size_t i, const Span& span) {
    const size_t first = cursor_.at(span.begin_ns);
    Bin& bin = seen_.bins[first];
    ++bin.operations;
    const auto moved = static_cast<uint64_t>(std::max<int64_t>(block_.columns.result[i], 0));
    const bool both = kind == wire::CallKind::kTransfer;
    const uint64_t bytes_read = both || kind == wire::CallKind::kRead ? moved : 0;
    const uint64_t bytes_written = both || kind == wire::CallKind::kWrite ? moved : 0;
    if (!both && kind != wire::CallKind::kRead && kind != wire::CallKind::kWrite) ++bin.metadata;
    if (span.end_ns <= cursor_.end_ns() || first + 1 == plan_.time.count()) [[likely]] {
      bin.busy_ns += span.end_ns - span.begin_ns;
      bin.bytes_read += bytes_read;
      bin.bytes_written += bytes_written;
      return;
    }
    // The end is exclusive: a call that ends with a bin does not touch the next.
    const Crossing crossing{.begin_ns = span.begin_ns,
                            .end_ns = span.end_ns,
                            .first = first,
                            .last = plan_.time.at(span.end_ns - 1)};
    spread(crossing, span.end_ns - span.begin_ns, &Bin::busy_ns, &Bin::busy_step);
    if (bytes_read != 0) spread(crossing, bytes_read, &Bin::bytes_read, &Bin::read_step);
    if (bytes_written != 0) {
      spread(crossing, bytes_written, &Bin::bytes_written, &Bin::written_step);
    }
  }

  void spread(const Crossing& crossing, uint64_t amount, uint64_t Bin::* sum,
              uint64_t Bin::* step) {
    const Shares shares = share_out(plan_.time, crossing, amount);
    seen_.bins[crossing.first].*sum += shares.first;
    seen_.bins[crossing.first + 1].*step += shares.between;
    seen_.bins[crossing.last].*step -= shares.between;
    seen_.bins[crossing.last].*sum += shares.last;
  }

  void look_at_region(size_t i) {
    const EventColumns& columns = block_.columns;
    const Role role = block_.context.role(columns.file[i]);
    if (role == Role::kNone) return;
    const Span span = span_of(i);
    if (is_shown_ && role != Role::kEvaluate &&
        block_.context.is_compute(block_.group, role, columns.begin_ns[i])) {
      heat_up(kCompute, columns.thread[i], span);
    }
    if (is_shown_ && is_waiting(block_.context, role, columns.thread[i])) {
      heat_up(kWait, columns.thread[i], span);
    }
    if (!is_main_ || !group().trains || !is_drawn(role) || span.begin_ns == span.end_ns) return;
    const uint64_t epoch = columns.size[i];
    seen_.stretches.push_back({.begin_ns = span.begin_ns,
                               .end_ns = span.end_ns,
                               .epoch = epoch >= wire::kNoEpoch ? -1 : static_cast<int64_t>(epoch),
                               .group = static_cast<uint32_t>(block_.group),
                               .name = static_cast<uint32_t>(columns.file[i])});
  }

  void heat_up(Activity activity, trace::ThreadIndex thread, const Span& span) {
    threads_.of(thread)[activity].add(span, heater(activity));
  }

  const Plan& plan_;
  const Block& block_;
  Seen seen_;
  BlockThreads<Unions> threads_;
  BinCursor cursor_;
  BinCursor heat_cursor_;
  bool is_main_;
  bool is_shown_;
};

template <typename T>
void put_list(const std::vector<T>& list, std::vector<std::byte>& out) {
  const uint64_t count = list.size();
  const auto put = [&out](ByteView bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
  put(std::as_bytes(std::span(&count, 1)));
  put(std::as_bytes(std::span(list)));
}

template <typename T>
Result<std::vector<T>> take_list(ByteReader& saved) {
  ASSIGN_OR_RETURN(const auto count, saved.read<uint64_t>());
  if (count > saved.remaining() / sizeof(T)) {
    return fail(Errc::kCorrupt, "a timeline claims {} entries, but only {} bytes are left", count,
                saved.remaining());
  }
  ASSIGN_OR_RETURN(const ByteView bytes, saved.take(count * sizeof(T)));
  std::vector<T> list(count);
  if (count > 0) std::memcpy(list.data(), bytes.data(), bytes.size());
  return list;
}

class TimelineMetric final : public Metric {
 public:
  TimelineMetric(const Context& context, const Limits& limits)
      : context_(context), plan_(context, limits) {
    seen_.bins.resize(plan_.time.count());
    for (auto& bins : seen_.heat) bins.resize(plan_.shown.size() * plan_.heat.count());
  }

  void observe(const Block& block) override {
    const Seen of_block = BlockGatherer(plan_, block).gather();
    const size_t place = plan_.heat_place[static_cast<size_t>(block.group)];
    const MutexLock lock(mutex_);
    seen_.add(of_block, place == Plan::kNotShown ? 0 : place * plan_.heat.count());
  }

  void save(std::vector<std::byte>& out) const override {
    const MutexLock lock(mutex_);
    put_list(seen_.bins, out);
    for (const auto& bins : seen_.heat) put_list(bins, out);
    put_list(seen_.stretches, out);
  }

  Status merge(ByteReader& saved) override {
    Seen other;
    ASSIGN_OR_RETURN(other.bins, take_list<Bin>(saved));
    for (auto& bins : other.heat) {
      ASSIGN_OR_RETURN(bins, take_list<BusyBin>(saved));
    }
    ASSIGN_OR_RETURN(other.stretches, take_list<Found>(saved));
    const MutexLock lock(mutex_);
    RETURN_IF_ERROR(check_count(other.bins.size(), seen_.bins.size()));
    for (size_t of = 0; of < kActivityCount; ++of) {
      RETURN_IF_ERROR(check_count(other.heat[of].size(), seen_.heat[of].size()));
    }
    for (const Found& found : other.stretches) RETURN_IF_ERROR(check(found));
    seen_.add(other, 0);
    return {};
  }

  void finish(const Context& context, Profile& profile) override {
    const MutexLock lock(mutex_);
    finish_timeline(profile.timeline);
    finish_heat(context, profile.heat);
    finish_stretches(context, profile.stretches);
  }

 private:
  static Status check_count(size_t count, size_t own_count) {
    if (count == own_count) return {};
    return fail(Errc::kCorrupt,
                "cannot merge a timeline of {} bins into one of {}: it belongs to another trace",
                count, own_count);
  }

  Status check(const Found& found) const {
    if (found.group >= context_.groups.size() || found.name >= context_.trace.names().size() ||
        !is_drawn(context_.role(trace::NameIndex{found.name}))) {
      return fail(Errc::kCorrupt, "a timeline interval has the invalid group {} or name {}",
                  found.group, found.name);
    }
    if (found.begin_ns >= found.end_ns || found.end_ns > plan_.length_ns) {
      return fail(Errc::kCorrupt,
                  "a timeline interval from {} to {} ns is not within the {} ns of the job",
                  found.begin_ns, found.end_ns, plan_.length_ns);
    }
    return {};
  }

  void finish_timeline(Timeline& timeline) const REQUIRES(mutex_) {
    timeline.bin_ns = plan_.time.bin_ns();
    uint64_t read_step = 0;
    uint64_t written_step = 0;
    uint64_t busy_step = 0;
    for (const Bin& bin : seen_.bins) {
      read_step += bin.read_step;
      written_step += bin.written_step;
      busy_step += bin.busy_step;
      timeline.bytes_read.push_back(bin.bytes_read + read_step);
      timeline.bytes_written.push_back(bin.bytes_written + written_step);
      timeline.operations.push_back(bin.operations);
      timeline.metadata.push_back(bin.metadata);
      timeline.busy_ns.push_back(bin.busy_ns + busy_step);
    }
  }

  void finish_heat(const Context& context, HeatMap& heat) const REQUIRES(mutex_) {
    heat.bin_ns = plan_.heat.bin_ns();
    for (size_t place = 0; place < plan_.shown.size(); ++place) {
      RankActivity rank;
      rank.name = context.groups[plan_.shown[place]].name;
      rank.io = heat_of(place, kIo);
      rank.compute = heat_of(place, kCompute);
      rank.wait = heat_of(place, kWait);
      heat.ranks.push_back(std::move(rank));
    }
  }

  std::vector<uint16_t> heat_of(size_t place, Activity activity) const REQUIRES(mutex_) {
    const size_t count = plan_.heat.count();
    return thousandths(plan_.heat, std::span(seen_.heat[activity]).subspan(place * count, count));
  }

  void finish_stretches(const Context& context, std::vector<Stretch>& stretches) REQUIRES(mutex_) {
    cut(seen_.stretches);
    std::sort(seen_.stretches.begin(), seen_.stretches.end(), [](const Found& a, const Found& b) {
      const auto key = [](const Found& of) {
        return std::tuple(of.group, of.begin_ns, ~of.end_ns, of.name, of.epoch);
      };
      return key(a) < key(b);
    });
    for (const Found& found : seen_.stretches) {
      const trace::NameIndex name{found.name};
      stretches.push_back({.role = context.role(name),
                           .name = std::string(context.trace.name(name)),
                           .epoch = found.epoch,
                           .rank = found.group,
                           .begin_ns = found.begin_ns,
                           .end_ns = found.end_ns});
    }
  }

  const Context& context_;
  const Plan plan_;
  mutable Mutex mutex_;
  Seen seen_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Metric> make_timeline_metric(const Context& context, const Limits& limits) {
  return std::make_unique<TimelineMetric>(context, limits);
}

}  // namespace millrace::analyze
