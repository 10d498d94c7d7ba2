// PerfettoPackets: appends the packets of a Perfetto trace (protobuf TracePacket) to a string.
//
// Each process is one packet sequence with its own interned texts: a name, category, path or
// annotation key is written once per sequence and then referred to by number. Times are in
// nanoseconds on the boot-time clock, which starts with the trace. A clock snapshot relates it to
// the time of day.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interop/event.h"
#include "trace/trace.h"

namespace millrace::interop {

class PerfettoPackets {
 public:
  PerfettoPackets(const trace::Trace& trace, std::string& out) : trace_(trace), out_(out) {}

  void clock_snapshot(uint64_t start_ns);

  // Begins the sequence of a process: clears the interned texts and describes its track.
  void begin_process(trace::ProcessIndex process);
  void describe_thread(trace::ThreadIndex thread);
  // An additional track for slices that do not nest on the track of the thread. REQUIRES: lane > 0
  void describe_lane(trace::ThreadIndex thread, size_t lane);

  void slice_begin(const Event& event, size_t lane);
  void slice_end(trace::ThreadIndex thread, size_t lane, uint64_t time_ns);
  void instant(const Event& event, size_t lane);

 private:
  enum class Space { kNames, kCategories, kKeys, kTexts };

  void event_packet(const Event& event, size_t lane, uint64_t type);
  void write_interned(const Event& event);
  void intern(Space space, uint64_t id, std::string_view text);
  bool first_use(Space space, uint64_t id);
  void write_annotations(const Event& event);
  void write_region_annotations(const Event& event);
  void write_tag(const trace::RegionTag& tag);
  void integer_annotation(uint64_t key, uint64_t value);
  void text_annotation(uint64_t key, trace::NameIndex text);

  const trace::Trace& trace_;
  std::string& out_;
  uint32_t sequence_ = 0;
  std::vector<std::vector<bool>> seen_ = std::vector<std::vector<bool>>(4);  // by Space, then id
};

}  // namespace millrace::interop
