// Event: one row of EventColumns as a struct, which exporters write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "trace/read/columns.h"
#include "wire/trace_record.h"

namespace millrace::interop {

struct Event {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;  // at least begin_ns
  uint64_t offset = wire::kNoOffset;
  uint64_t size = 0;
  int64_t result = 0;
  uint64_t other_offset = wire::kNoOffset;
  std::span<const trace::RegionTag> tags;  // points into the columns
  trace::NameIndex file{};
  trace::NameIndex other_file{};
  trace::ThreadIndex thread{};
  uint32_t detail = 0;
  wire::Call call = wire::Call::kEmpty;
  uint16_t error = 0;
  uint8_t flags = 0;

  bool is_region() const { return wire::level_of(call) == wire::Level::kApp; }
  uint64_t duration_ns() const { return end_ns - begin_ns; }
};

// REQUIRES: row is below columns.size_events()
inline Event event_at(const trace::EventColumns& columns, size_t row) {
  Event event{
      .begin_ns = columns.begin_ns[row],
      .end_ns = columns.begin_ns[row] + columns.duration_ns[row],
      .offset = columns.offset[row],
      .size = columns.size[row],
      .result = columns.result[row],
      .other_offset = columns.other_offset[row],
      .tags = {},
      .file = columns.file[row],
      .other_file = columns.other_file[row],
      .thread = columns.thread[row],
      .detail = columns.detail[row],
      .call = columns.call[row],
      .error = columns.error[row],
      .flags = columns.flags[row],
  };
  if (event.end_ns < event.begin_ns) event.end_ns = std::numeric_limits<uint64_t>::max();
  if (!columns.tag_begin.empty()) {
    const size_t first = columns.tag_begin[row];
    event.tags = {columns.tags.data() + first, columns.tag_begin[row + 1] - first};
  }
  return event;
}

}  // namespace millrace::interop
