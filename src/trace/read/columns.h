// EventColumns: events as parallel arrays, the form in which they are stored, scanned and exported.
//
// All arrays except those of tags have one entry per event. Times are nanoseconds on the trace's
// common clock (Trace::origin_wall_ns is its zero). Names, threads and processes are indices into
// the trace's tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "wire/trace_record.h"

namespace millrace::trace {

enum class NameIndex : uint32_t {};     // into Trace::names(); 0 is the empty name
enum class ThreadIndex : uint32_t {};   // into Trace::threads()
enum class ProcessIndex : uint32_t {};  // into Trace::processes()

// A key=value tag of a region.
struct RegionTag {
  NameIndex key{};
  wire::TagKind kind = wire::TagKind::kNone;
  uint64_t value = 0;  // an integer (two's complement), the bits of a double, or a NameIndex
};

struct EventColumns {
  std::vector<uint64_t> begin_ns;
  std::vector<uint64_t> duration_ns;
  std::vector<wire::Call> call;
  std::vector<NameIndex> file;   // the path, or the name of a region
  std::vector<uint64_t> offset;  // wire::kNoOffset: none. For a region: its step
  std::vector<uint64_t> size;    // requested bytes. For a region: its epoch
  std::vector<int64_t> result;   // what the call returned; bytes for calls that move bytes
  std::vector<uint16_t> error;   // errno; 0: none
  std::vector<ThreadIndex> thread;
  std::vector<uint32_t> detail;       // depends on the call: open flags, whence, advice, ...
  std::vector<NameIndex> other_file;  // the second file of rename, copy_file_range, ...
  std::vector<uint64_t> other_offset;
  std::vector<uint8_t> flags;  // wire::kFlagForeignOrigin, kFlagEstimate

  // The tags of event i are tags[tag_begin[i]] to tags[tag_begin[i + 1]]. tag_begin is empty if no
  // event of the block has tags.
  std::vector<uint32_t> tag_begin;
  std::vector<RegionTag> tags;

  size_t size_events() const { return begin_ns.size(); }
};

// Clears all columns but keeps their memory.
inline void clear(EventColumns& columns) {
  columns.begin_ns.clear();
  columns.duration_ns.clear();
  columns.call.clear();
  columns.file.clear();
  columns.offset.clear();
  columns.size.clear();
  columns.result.clear();
  columns.error.clear();
  columns.thread.clear();
  columns.detail.clear();
  columns.other_file.clear();
  columns.other_offset.clear();
  columns.flags.clear();
  columns.tag_begin.clear();
  columns.tags.clear();
}

}  // namespace millrace::trace
