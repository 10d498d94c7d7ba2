// The stalls metric: what the training thread did outside all regions that say what it does.
//
// A gap lies between two outermost activities (is_activity()) of the thread that trains; state that
// is loaded between steps is no activity. Events of
// a thread are stored in the order in which they ended, so reading a block backwards meets an
// activity before everything in it, and the calls of a gap before the activity that precedes it.
// Gaps are cut at the ends of a block. The calls that complete a checkpoint belong to it, not to a
// gap. While a file is open within one compute region, as in a hook of the model, that is a gap
// too. In a gap that its calls do not explain, the time while a file is open is explained by that.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/files/file_kinds.h"
#include "analyze/scan.h"
#include "base/concurrency/mutex.h"
#include "trace/pack/bytes_out.h"

namespace millrace::analyze {
namespace {

using trace::NameIndex;

enum class Phase : uint8_t { kBefore = 0, kIn, kAfter };
constexpr std::array<std::string_view, 3> kPhaseNames = {"before training", "in training",
                                                         "after training"};

// Calls explain a gap if they fill this part of it, or if they are this many: then the program
// itself is slow at making them.
constexpr uint64_t kGapPerCallTime = 10;
constexpr size_t kManyCalls = 20;

struct RowKey {
  Phase phase{};
  NameIndex region{};
  uint16_t call = 0;  // 0: no call explains the gaps
  // Calls on files of the system, such as imports, have a row of their own: they would hide where
  // the data is.
  uint8_t on_system = 0;

  auto operator<=>(const RowKey&) const = default;
};

struct Row {
  uint64_t count = 0;
  uint64_t time_ns = 0;
  uint64_t stall_ns = 0;
  uint64_t gaps = 0;
  std::unordered_map<uint32_t, uint64_t> calls_of;  // by file

  void add(const Row& other) {
    count += other.count;
    time_ns += other.time_ns;
    stall_ns += other.stall_ns;
    gaps += other.gaps;
    for (const auto& [file, calls] : other.calls_of) calls_of[file] += calls;
  }
};

using Rows = std::map<RowKey, Row>;
using CheckpointEnds = std::map<uint64_t, uint64_t>;  // by begin

struct GapCall {
  size_t event = 0;
  NameIndex region{};
};

// Finds the gaps of the training thread in one block.
class GapFinder {
 public:
  GapFinder(const Block& block, const Group& group, const CheckpointEnds& checkpoint_ends)
      : context_(block.context),
        columns_(block.columns),
        group_(group),
        checkpoint_ends_(checkpoint_ends) {}

  Rows find() {
    bool is_first = true;
    uint64_t earliest_ns = ~uint64_t{0};
    for (size_t i = columns_.size_events(); i-- > 0;) {
      if (columns_.thread[i] != *group_.thread) continue;
      if ((columns_.flags[i] & wire::kFlagForeignOrigin) != 0) continue;
      if (is_first) begin(end_of(i));
      is_first = false;
      earliest_ns = std::min(earliest_ns, columns_.begin_ns[i]);
      if (columns_.begin_ns[i] >= gap_end_ns_) {
        if (computes_) add_use(i);
        continue;  // within an activity
      }
      if (columns_.call[i] == wire::Call::kRegion) {
        add_region(i);
      } else if (is_io(columns_.call[i])) {
        add_call(i);
      }
    }
    if (!is_first) finish_gap(earliest_ns);
    return std::move(rows_);
  }

 private:
  uint64_t end_of(size_t i) const { return columns_.begin_ns[i] + columns_.duration_ns[i]; }

  // Considers the regions that end in a later block.
  void begin(uint64_t last_ns) {
    gap_end_ns_ = last_ns;
    const auto thread = *group_.thread;
    const auto& regions = context_.long_regions;
    auto at = std::lower_bound(
        regions.begin(), regions.end(), thread,
        [](const LongRegion& region, trace::ThreadIndex of) { return region.thread < of; });
    for (; at != regions.end() && at->thread == thread && at->begin_ns < last_ns; ++at) {
      if (at->end_ns <= last_ns) continue;
      if (says_what_is_done(at->name, {at->begin_ns, at->end_ns})) {
        gap_end_ns_ = std::min(gap_end_ns_, at->begin_ns);
      } else {
        note_user_region(at->name, {at->begin_ns, at->end_ns});
      }
    }
  }

  // State that is loaded between steps, such as that of an opponent, stops training like any file.
  bool says_what_is_done(NameIndex name, const Interval& time) const {
    const Role role = context_.role(name);
    if (role != Role::kRestore) return is_activity(role);
    return time.begin_ns < group_.training.begin_ns || time.end_ns > group_.training.end_ns;
  }

  // Only the outermost one counts.
  void note_user_region(NameIndex name, const Interval& time) {
    if (context_.role(name) != Role::kNone) return;
    if (time.begin_ns >= region_time_.begin_ns && time.end_ns <= region_time_.end_ns) return;
    region_ = name;
    region_time_ = time;
  }

  void add_region(size_t i) {
    const NameIndex name = columns_.file[i];
    const Role role = context_.role(name);
    uint64_t end_ns = end_of(i);
    const Interval time{columns_.begin_ns[i], end_ns};
    if (!says_what_is_done(name, time)) return note_user_region(name, time);
    if (role == Role::kCheckpoint) {
      const auto longer = checkpoint_ends_.find(columns_.begin_ns[i]);
      if (longer != checkpoint_ends_.end()) end_ns = std::max(end_ns, longer->second);
    }
    finish_gap(end_ns);
    gap_end_ns_ = columns_.begin_ns[i];
    computes_ = role == Role::kCompute;
    uses_.clear();
  }

  // A call within a compute region. Backwards, the close of a file comes before its open.
  void add_use(size_t i) {
    if (!is_io(columns_.call[i])) return;
    const NameIndex file = columns_.file[i];
    if (context_.system_file[static_cast<size_t>(file)]) return;
    const wire::CallKind kind = traits_of(columns_.call[i]).kind;
    if (uses_.empty() && kind != wire::CallKind::kClose) return;
    if (!uses_.empty() && columns_.file[uses_.front().event] != file) return;
    uses_.push_back({i, NameIndex{}});
    if (kind != wire::CallKind::kOpen) return;
    bill({columns_.begin_ns[i], end_of(uses_.front().event)}, uses_, /*always=*/true);
    uses_.clear();
  }

  void add_call(size_t i) {
    if (!calls_.empty() && columns_.begin_ns[i] >= columns_.begin_ns[calls_.back().event]) return;
    calls_.push_back({i, is_in_region(columns_.begin_ns[i]) ? region_ : NameIndex{}});
  }

  bool is_in_region(uint64_t time_ns) const {
    return time_ns >= region_time_.begin_ns && time_ns < region_time_.end_ns;
  }

  Phase phase_of(const Interval& gap) const {
    const Interval& training = group_.training;
    if (gap.end_ns <= training.begin_ns) return Phase::kBefore;
    return gap.begin_ns >= training.end_ns && training.end_ns > 0 ? Phase::kAfter : Phase::kIn;
  }

  // A checkpoint without a region may lie in the gap and divide it.
  void finish_gap(uint64_t begin_ns) {
    std::span<const GapCall> calls(calls_);  // latest first
    const auto take_from = [&](uint64_t time_ns) {
      size_t count = 0;
      while (count < calls.size() && columns_.begin_ns[calls[count].event] >= time_ns) ++count;
      const auto taken = calls.first(count);
      calls = calls.subspan(count);
      return taken;
    };
    uint64_t end_ns = gap_end_ns_;
    for (auto at = checkpoint_ends_.lower_bound(end_ns);
         at != checkpoint_ends_.begin() && std::prev(at)->first >= begin_ns;) {
      --at;
      bill({at->second, end_ns}, take_from(at->second));
      take_from(at->first);
      end_ns = at->first;
    }
    bill({begin_ns, end_ns}, take_from(begin_ns));
    calls_.clear();
  }

  // `always`: the calls explain the gap however short they are.
  void bill(const Interval& gap, std::span<const GapCall> calls, bool always = false) {
    if (gap.begin_ns >= gap.end_ns) return;
    const Phase phase = phase_of(gap);
    const uint64_t length_ns = gap.end_ns - gap.begin_ns;
    uint64_t calls_ns = 0;
    for (const GapCall& call : calls) calls_ns += columns_.duration_ns[call.event];
    const bool explained = calls_ns > 0 && (always || calls_ns >= length_ns / kGapPerCallTime ||
                                            calls.size() >= kManyCalls);
    // Calls without a duration (DFTracer counts microseconds) explain nothing, however many.
    const bool may_divide = !explained && !always && calls.size() < kManyCalls;
    if (may_divide && bill_use(gap, calls)) return;
    // The part of the gap up to a call, in proportion to the time of the calls until then. The
    // parts add up to the gap.
    const auto part_until = [&](uint64_t time_ns) {
      return static_cast<uint64_t>(static_cast<double>(length_ns) *
                                   (static_cast<double>(time_ns) / static_cast<double>(calls_ns)));
    };
    uint64_t so_far_ns = 0;
    std::map<RowKey, Row*> rows;
    for (const GapCall& call : calls) {
      const auto file = static_cast<size_t>(columns_.file[call.event]);
      const RowKey key{phase, call.region, static_cast<uint16_t>(columns_.call[call.event]),
                       context_.system_file[file] ? uint8_t{1} : uint8_t{0}};
      Row& row = rows_[key];
      rows[key] = &row;
      const uint64_t duration_ns = columns_.duration_ns[call.event];
      ++row.count;
      row.time_ns += duration_ns;
      ++row.calls_of[static_cast<uint32_t>(file)];
      if (explained) {
        row.stall_ns += part_until(so_far_ns + duration_ns) - part_until(so_far_ns);
        so_far_ns += duration_ns;
      }
    }
    if (!explained) {
      const bool in_region = is_in_region(gap.begin_ns) && gap.end_ns <= region_time_.end_ns;
      const RowKey key{.phase = phase, .region = in_region ? region_ : NameIndex{}};
      rows[key] = &rows_[key];
      rows_[key].stall_ns += length_ns;
    }
    for (const auto& [key, row] : rows) ++row->gaps;
  }

  // Divides the gap at the last file that is opened and closed in it: code works for this file
  // meanwhile, such as a compressor. False if there is none.
  bool bill_use(const Interval& gap, std::span<const GapCall> calls) {
    for (size_t close = 0; close < calls.size(); ++close) {
      if (kind_at(calls[close]) != wire::CallKind::kClose || is_of_system(calls[close])) continue;
      for (size_t open = close + 1; open < calls.size(); ++open) {
        if (kind_at(calls[open]) != wire::CallKind::kOpen ||
            columns_.file[calls[open].event] != columns_.file[calls[close].event]) {
          continue;
        }
        const Interval use{columns_.begin_ns[calls[open].event], end_of(calls[close].event)};
        bill({use.end_ns, gap.end_ns}, calls.first(close));
        bill(use, calls.subspan(close, open - close + 1), /*always=*/true);
        bill({gap.begin_ns, use.begin_ns}, calls.subspan(open + 1));
        return true;
      }
    }
    return false;
  }

  wire::CallKind kind_at(const GapCall& call) const {
    return traits_of(columns_.call[call.event]).kind;
  }

  bool is_of_system(const GapCall& call) const {
    return context_.system_file[static_cast<size_t>(columns_.file[call.event])];
  }

  const Context& context_;
  const trace::EventColumns& columns_;
  const Group& group_;
  const CheckpointEnds& checkpoint_ends_;
  Rows rows_;
  uint64_t gap_end_ns_ = 0;
  std::vector<GapCall> calls_;  // of the current gap: the outermost ones, latest first
  bool computes_ = false;       // the activity at gap_end_ns_ is compute
  std::vector<GapCall> uses_;   // of a file that is closed in it, latest first
  NameIndex region_{};          // the outermost region without a role
  Interval region_time_;
};

class StallsMetric final : public Metric {
 public:
  explicit StallsMetric(const Context& context) : checkpoint_ends_(context.groups.size()) {
    for (const CheckpointRegion& region : context.checkpoints) {
      uint64_t& end_ns = checkpoint_ends_[static_cast<size_t>(region.group)][region.span.begin_ns];
      end_ns = std::max(end_ns, region.span.end_ns);
    }
    names_ = context.trace.names().size();
  }

  void observe(const Block& block) override {
    const auto index = static_cast<size_t>(block.group);
    const Group& group = block.context.groups[index];
    if (!group.trains || group.main != block.process || !group.thread) return;
    const Rows rows = GapFinder(block, group, checkpoint_ends_[index]).find();
    const MutexLock lock(mutex_);
    for (const auto& [key, row] : rows) rows_[key].add(row);
  }

  void save(std::vector<std::byte>& out) const override {
    const MutexLock lock(mutex_);
    trace::BytesOut bytes;
    bytes.put_varint(rows_.size());
    for (const auto& [key, row] : rows_) {
      bytes.put(key.phase);
      bytes.put_varint(static_cast<uint32_t>(key.region));
      bytes.put(key.call);
      bytes.put(key.on_system);
      bytes.put_varint(row.count);
      bytes.put_varint(row.time_ns);
      bytes.put_varint(row.stall_ns);
      bytes.put_varint(row.gaps);
      bytes.put_varint(row.calls_of.size());
      for (const auto& [file, calls] : row.calls_of) {
        bytes.put_varint(file);
        bytes.put_varint(calls);
      }
    }
    out.insert(out.end(), bytes.view().begin(), bytes.view().end());
  }

  Status merge(ByteReader& saved) override {
    const MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const uint64_t count, saved.read_varint());
    for (uint64_t i = 0; i < count; ++i) RETURN_IF_ERROR(merge_row(saved));
    return {};
  }

  void finish(const Context& context, Profile& profile) override {
    const MutexLock lock(mutex_);
    for (const auto& [key, row] : rows_) {
      Stall& stall = profile.stalls.emplace_back();
      stall.phase = kPhaseNames[static_cast<size_t>(key.phase)];
      stall.region = context.trace.name(key.region);
      if (key.call != 0) stall.name = call_name(static_cast<wire::Call>(key.call));
      stall.count = row.count;
      stall.time_ns = row.time_ns;
      stall.stall_ns = row.stall_ns;
      stall.gaps = row.gaps;
      stall.directory = busiest_directory(context, key, row);
      stall.files = row.calls_of.size() - row.calls_of.count(0);
    }
    std::sort(profile.stalls.begin(), profile.stalls.end(), [](const Stall& a, const Stall& b) {
      return std::tie(b.stall_ns, a.phase, a.region, a.name, a.directory) <
             std::tie(a.stall_ns, b.phase, b.region, b.name, b.directory);
    });
  }

 private:
  Status merge_row(ByteReader& saved) REQUIRES(mutex_) {
    const auto read_name = [&]() -> Result<uint32_t> {
      ASSIGN_OR_RETURN(const uint64_t name, saved.read_varint());
      if (name < names_) return static_cast<uint32_t>(name);
      return fail(Errc::kCorrupt, "saved stalls have the name {}, but there are {}", name, names_);
    };
    RowKey key;
    ASSIGN_OR_RETURN(key.phase, saved.read<Phase>());
    if (static_cast<size_t>(key.phase) >= kPhaseNames.size()) {
      return fail(Errc::kCorrupt, "saved stalls have the unknown phase {}",
                  static_cast<unsigned>(key.phase));
    }
    ASSIGN_OR_RETURN(const uint32_t region, read_name());
    key.region = NameIndex{region};
    ASSIGN_OR_RETURN(key.call, saved.read<uint16_t>());
    if (key.call != 0 && wire::call_info(static_cast<wire::Call>(key.call)) == nullptr) {
      return fail(Errc::kCorrupt, "saved stalls have the unknown call {:#x}", key.call);
    }
    ASSIGN_OR_RETURN(key.on_system, saved.read<uint8_t>());
    Row row;
    ASSIGN_OR_RETURN(row.count, saved.read_varint());
    ASSIGN_OR_RETURN(row.time_ns, saved.read_varint());
    ASSIGN_OR_RETURN(row.stall_ns, saved.read_varint());
    ASSIGN_OR_RETURN(row.gaps, saved.read_varint());
    ASSIGN_OR_RETURN(const uint64_t file_count, saved.read_varint());
    for (uint64_t i = 0; i < file_count; ++i) {
      ASSIGN_OR_RETURN(const uint32_t file, read_name());
      ASSIGN_OR_RETURN(row.calls_of[file], saved.read_varint());
    }
    rows_[key].add(row);
    return {};
  }

  static std::string call_name(wire::Call call) {
    const wire::CallInfo* info = wire::call_info(call);
    return info == nullptr ? "" : std::string(info->name);
  }

  // The directory with the most calls: of the file, or the one that is listed.
  static std::string busiest_directory(const Context& context, const RowKey& key, const Row& row) {
    const bool lists =
        traits_of(static_cast<wire::Call>(key.call)).kind == wire::CallKind::kDirectory;
    std::map<std::string_view, uint64_t> calls_in;
    for (const auto& [file, calls] : row.calls_of) {
      const std::string_view path = context.trace.name(NameIndex{file});
      if (path.find('/') == std::string_view::npos) continue;
      calls_in[lists ? path : directory_of(path)] += calls;
    }
    const auto most =
        std::max_element(calls_in.begin(), calls_in.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == calls_in.end() ? "" : std::string(most->first);
  }

  std::vector<CheckpointEnds> checkpoint_ends_;  // by group
  size_t names_ = 0;
  mutable Mutex mutex_;
  Rows rows_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Metric> make_stalls_metric(const Context& context, const Limits& /*limits*/) {
  return std::make_unique<StallsMetric>(context);
}

}  // namespace millrace::analyze
