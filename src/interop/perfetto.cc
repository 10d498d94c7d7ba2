// The exporter `perfetto`: TrackEvent slices on process and thread tracks.
//
// A trace stores events in the order in which they ended, but a track needs begins and ends in time
// order. Each process is therefore processed in windows of time: the events that begin in a window
// are read from the blocks that overlap it, sorted, and written. Slices that are still open at its
// end stay open. Only one window of one process is in memory, however long the trace is. A block
// with a long region overlaps many windows and is read for each of them, which is cheaper than
// keeping it.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/text/units.h"
#include "interop/interop.h"
#include "interop/perfetto_packets.h"
#include "interop/slice_lanes.h"

namespace millrace::interop {
namespace {

// About 120 MB of events in memory.
constexpr uint64_t kWindowEvents = 1'000'000;
constexpr uint64_t kSlicesBrowserMax = 10'000'000;

struct Window {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;  // exclusive
};

// Copies of events and their tags, because the columns are reused.
class Batch {
 public:
  void clear() {
    events_.clear();
    tags_.clear();
    tag_at_.clear();
  }

  void add(const Event& event) {
    events_.push_back(event);
    tag_at_.push_back(tags_.size());
    tags_.insert(tags_.end(), event.tags.begin(), event.tags.end());
  }

  // Sorted by thread, then begin, longer events first. Add nothing afterwards.
  const std::vector<Event>& sorted() {
    for (size_t i = 0; i < events_.size(); ++i) {
      events_[i].tags = {tags_.data() + tag_at_[i], events_[i].tags.size()};
    }
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      if (a.thread != b.thread) return a.thread < b.thread;
      if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
      return a.end_ns > b.end_ns;
    });
    return events_;
  }

 private:
  std::vector<Event> events_;
  std::vector<trace::RegionTag> tags_;
  std::vector<size_t> tag_at_;
};

class PerfettoExport {
 public:
  PerfettoExport(const trace::Trace& trace, const Selection& selection, Sink& sink,
                 ExportReport& report, uint64_t window_events)
      : trace_(trace),
        filter_(trace, selection),
        sink_(sink),
        report_(report),
        window_events_(window_events),
        packets_(trace, sink.buffer()) {}

  Status run() {
    packets_.clock_snapshot(start_of(trace_));
    std::vector<std::vector<size_t>> blocks_of(trace_.processes().size());
    for (size_t block = 0; block < trace_.blocks().size(); ++block) {
      const trace::BlockInfo& info = trace_.blocks()[block];
      if (filter_.wants_block(info)) blocks_of[static_cast<size_t>(info.process)].push_back(block);
    }
    for (size_t process = 0; process < blocks_of.size(); ++process) {
      if (blocks_of[process].empty()) continue;
      RETURN_IF_ERROR(write_process(static_cast<trace::ProcessIndex>(process), blocks_of[process]));
    }
    return {};
  }

 private:
  struct ThreadState {
    SliceLanes lanes;
    size_t described_lanes = 0;
  };

  Status write_process(trace::ProcessIndex process, std::vector<size_t>& blocks) {
    packets_.begin_process(process);
    threads_.clear();
    std::sort(blocks.begin(), blocks.end(), [this](size_t a, size_t b) {
      return trace_.blocks()[a].end_ns < trace_.blocks()[b].end_ns;
    });
    for (const Window& window : windows(blocks)) {
      RETURN_IF_ERROR(read_window(blocks, window));
      for (const Event& event : batch_.sorted()) {
        write_event(event);
        RETURN_IF_ERROR(sink_.flush_if_full());
      }
    }
    for (auto& [thread, state] : threads_) {
      finish(thread, state, std::numeric_limits<uint64_t>::max());
      RETURN_IF_ERROR(sink_.flush_if_full());
    }
    return {};
  }

  // Divides the time where blocks with a window's worth of events have ended. `blocks` are sorted
  // by end.
  std::vector<Window> windows(const std::vector<size_t>& blocks) const {
    std::vector<Window> windows;
    uint64_t begin_ns = 0;
    uint64_t count = 0;
    for (const size_t block : blocks) {
      count += trace_.blocks()[block].event_count;
      const uint64_t end_ns = trace_.blocks()[block].end_ns;
      if (count < window_events_ || end_ns <= begin_ns) continue;
      windows.push_back({begin_ns, end_ns});
      begin_ns = end_ns;
      count = 0;
    }
    windows.push_back({begin_ns, std::numeric_limits<uint64_t>::max()});
    return windows;
  }

  Status read_window(const std::vector<size_t>& blocks, const Window& window) {
    batch_.clear();
    for (const size_t block : blocks) {
      const trace::BlockInfo& info = trace_.blocks()[block];
      if (info.begin_ns >= window.end_ns || info.end_ns < window.begin_ns) continue;
      RETURN_IF_ERROR(trace_.read_block(block, columns_));
      for (size_t row = 0; row < columns_.size_events(); ++row) {
        const Event event = event_at(columns_, row);
        const bool begins_here =
            event.begin_ns >= window.begin_ns && event.begin_ns < window.end_ns;
        if (begins_here && filter_.wants(event)) batch_.add(event);
      }
    }
    return {};
  }

  void write_event(const Event& event) {
    ThreadState& state = threads_[event.thread];
    if (state.described_lanes == 0) {
      packets_.describe_thread(event.thread);
      state.described_lanes = 1;
    }
    ++report_.event_count;
    if (event.call == wire::Call::kMark) return packets_.instant(event, 0);
    const bool foreign = (event.flags & wire::kFlagForeignOrigin) != 0;
    const size_t lane = state.lanes.place(event.begin_ns, event.end_ns, foreign,
                                          [&](size_t ended_lane, uint64_t time_ns) {
                                            packets_.slice_end(event.thread, ended_lane, time_ns);
                                          });
    while (state.described_lanes <= lane) {
      packets_.describe_lane(event.thread, state.described_lanes++);
    }
    packets_.slice_begin(event, lane);
  }

  void finish(trace::ThreadIndex thread, ThreadState& state, uint64_t time_ns) {
    state.lanes.finish(
        time_ns, [&](size_t lane, uint64_t end_ns) { packets_.slice_end(thread, lane, end_ns); });
  }

  const trace::Trace& trace_;
  const EventFilter filter_;
  Sink& sink_;
  ExportReport& report_;
  const uint64_t window_events_;
  PerfettoPackets packets_;
  trace::EventColumns columns_;
  Batch batch_;
  std::map<trace::ThreadIndex, ThreadState> threads_;
};

}  // namespace

Status export_perfetto(const trace::Trace& trace, const Selection& selection, Sink& sink,
                       ExportReport& report) {
  return export_perfetto_in_windows(trace, selection, sink, report, kWindowEvents);
}

Status export_perfetto_in_windows(const trace::Trace& trace, const Selection& selection, Sink& sink,
                                  ExportReport& report, uint64_t window_events) {
  RETURN_IF_ERROR(PerfettoExport(trace, selection, sink, report, window_events).run());
  if (report.event_count > kSlicesBrowserMax) {
    report.warnings.push_back(fmt::format(
        "{} slices are more than a browser can load (about {}); export a part with --from, "
        "--until, --ranks or --levels",
        format_exact(report.event_count), format_exact(kSlicesBrowserMax)));
  }
  return {};
}

}  // namespace millrace::interop
