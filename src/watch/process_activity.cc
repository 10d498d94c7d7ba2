#include "watch/process_activity.h"

#include <algorithm>

namespace millrace::watch {

using trace::EventColumns;
using wire::CallKind;

namespace {

constexpr uint32_t bit(wire::Level level) { return 1u << static_cast<uint32_t>(level); }

// Length of the part of an event that lies in the window.
uint64_t within(WindowBounds window, uint64_t begin_ns, uint64_t end_ns) {
  const uint64_t begin = std::max(begin_ns, window.begin_ns);
  const uint64_t end = std::min(end_ns, window.end_ns);
  return end > begin ? end - begin : 0;
}

uint64_t bytes_of(const EventColumns& events, size_t event) {
  return events.result[event] > 0 ? static_cast<uint64_t>(events.result[event]) : 0;
}

}  // namespace

CountedLevels counted_levels(uint32_t levels, bool has_outside) {
  using wire::Level;
  constexpr uint32_t kBelow = bit(Level::kPosix) | bit(Level::kStdio);
  if (has_outside && (levels & bit(Level::kPosix)) != 0) return {bit(Level::kPosix)};
  if ((levels & kBelow) != 0) return {levels & kBelow};
  for (const Level level : {Level::kMpiio, Level::kHdf5}) {
    if ((levels & bit(level)) != 0) return {bit(level)};
  }
  return {kBelow};
}

void ProcessActivity::begin_window() {
  operations_ = {};
  busy_ns_ = 0;
  batch_wait_ns_ = 0;
  fetch_ns_ = 0;
  for (auto& [thread, intervals] : intervals_) intervals.clear();
}

void ProcessActivity::add_region(const EventColumns& events, size_t event, WindowBounds window,
                                 Role role) {
  const uint64_t end_ns = events.begin_ns[event] + events.duration_ns[event];
  const uint64_t waited_ns = within(window, events.begin_ns[event], end_ns);
  if (role == Role::kBatchWait) {
    has_batch_wait_ = true;
    batch_wait_ns_ += waited_ns;
  } else if (role == Role::kFetch) {
    has_fetch_ = true;
    fetch_ns_ += waited_ns;
  }
  if (end_ns < progress_.at_ns) return;
  const bool has_epoch = events.size[event] != wire::kNoEpoch;
  const bool has_step = events.offset[event] != wire::kNoStep;
  if (!has_epoch && !has_step) return;
  progress_.at_ns = end_ns;
  if (has_epoch) {
    const auto epoch = static_cast<uint32_t>(events.size[event]);
    if (!progress_.has_epoch || epoch != progress_.epoch) progress_.has_step = false;
    progress_.has_epoch = true;
    progress_.epoch = epoch;
  }
  if (has_step) {
    progress_.has_step = true;
    progress_.step = events.offset[event];
  }
}

void ProcessActivity::add_call(const EventColumns& events, size_t event, WindowBounds window,
                               FileActivities& files) {
  const wire::CallInfo* info = wire::call_info(events.call[event]);
  if (info == nullptr || info->kind == CallKind::kProcess || info->kind == CallKind::kRegion ||
      events.call[event] == wire::Call::kMapped) {
    return;
  }
  const uint64_t took_ns = events.duration_ns[event];
  const uint64_t end_ns = events.begin_ns[event] + took_ns;
  const uint64_t busy_ns = within(window, events.begin_ns[event], end_ns);
  const bool reads = info->kind == CallKind::kRead || info->kind == CallKind::kTransfer;
  const bool writes = info->kind == CallKind::kWrite || info->kind == CallKind::kTransfer;
  const uint64_t bytes = reads || writes ? bytes_of(events, event) : 0;
  if (info->kind == CallKind::kTransfer) {
    // Its bytes are read and written, but it is one call: count it and its time once.
    operations_.reads.add(bytes, took_ns);
    operations_.writes.bytes += bytes;
  } else if (reads) {
    operations_.reads.add(bytes, took_ns);
  } else if (writes) {
    operations_.writes.add(bytes, took_ns);
  } else if (info->kind == CallKind::kOpen) {
    operations_.opens.add(0, took_ns);
  } else if (info->kind == CallKind::kMetadata || info->kind == CallKind::kDirectory) {
    operations_.metadata.add(0, took_ns);
  } else {
    operations_.others.add(0, took_ns);
  }
  ++calls_total_;
  busy_ns_ += busy_ns;
  if (busy_ns > 0) {
    auto& intervals = intervals_[static_cast<uint32_t>(events.thread[event])];
    intervals.push_back(
        {std::max(events.begin_ns[event], window.begin_ns), std::min(end_ns, window.end_ns)});
  }
  if (events.file[event] == trace::NameIndex{}) return;
  FileActivity& file = files[static_cast<uint32_t>(events.file[event])];
  ++file.count;
  file.busy_ns += busy_ns;
  if (reads) file.read_bytes += bytes;
  if (info->kind == CallKind::kWrite) file.written_bytes += bytes;
  if (info->kind == CallKind::kTransfer && events.other_file[event] != trace::NameIndex{}) {
    files[static_cast<uint32_t>(events.other_file[event])].written_bytes += bytes;
  }
}

// The calls of one thread come in order. Sorting is needed only for several threads or nested
// calls.
uint64_t ProcessActivity::in_io_ns() const {
  std::vector<Interval> all;
  for (const auto& [thread, intervals] : intervals_) {
    all.insert(all.end(), intervals.begin(), intervals.end());
  }
  const auto earlier = [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; };
  if (!std::is_sorted(all.begin(), all.end(), earlier)) std::sort(all.begin(), all.end(), earlier);
  uint64_t total_ns = 0;
  uint64_t covered_to_ns = 0;
  for (const Interval& interval : all) {
    const uint64_t begin = std::max(interval.begin_ns, covered_to_ns);
    if (interval.end_ns <= begin) continue;
    total_ns += interval.end_ns - begin;
    covered_to_ns = interval.end_ns;
  }
  return total_ns;
}

}  // namespace millrace::watch
