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

  // The tags of event i are those from tag_begin[i] up to, but not including, tag_begin[i + 1].
  // tag_begin is empty if no event of the block has tags.
  std::vector<uint32_t> tag_begin;
  std::vector<RegionTag> tags;

  size_t size_events() const { return begin_ns.size(); }
};

// Calls visit(&EventColumns::begin_ns) and so on: for each column with one entry per event.
template <typename Visit>
void for_each_column(Visit visit) {
  visit(&EventColumns::begin_ns);
  visit(&EventColumns::duration_ns);
  visit(&EventColumns::call);
  visit(&EventColumns::file);
  visit(&EventColumns::offset);
  visit(&EventColumns::size);
  visit(&EventColumns::result);
  visit(&EventColumns::error);
  visit(&EventColumns::thread);
  visit(&EventColumns::detail);
  visit(&EventColumns::other_file);
  visit(&EventColumns::other_offset);
  visit(&EventColumns::flags);
}

// Clears all columns but keeps their memory.
inline void clear(EventColumns& columns) {
  for_each_column([&](auto column) { (columns.*column).clear(); });
  columns.tag_begin.clear();
  columns.tags.clear();
}

}  // namespace millrace::trace
