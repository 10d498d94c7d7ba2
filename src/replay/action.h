// Action: what the replay does for a recorded call.
//
// Many calls do the same thing to a file (read, readv, fread), and some need not be replayed at
// all. An action says what a step refers to (a name or an open file) and how it is planned;
// issue.cc then makes the recorded call itself, not a substitute, wherever the trace has its
// arguments.
#pragma once

#include <cstdint>

#include "wire/trace_call.h"

namespace millrace::replay {

enum class Action : uint8_t {
  kNone,     // no I/O on a file: processes, regions
  kCovered,  // another event has its I/O: mmap (mapped), aio_return (aio_read), fseek (fread)
  kCannot,   // the trace lacks its arguments, or it must not be repeated: locks, attributes, sync

  kOpen,
  kOpenStream,
  kOpenDirectory,
  kClose,
  kCloseStream,
  kCloseDirectory,
  kDuplicate,  // only the number of closes that follow changes

  kRead,  // at the position of the descriptor
  kWrite,
  kReadAt,
  kWriteAt,
  kReadMapped,  // touches the pages that were resident when the mapping ended
  kTransfer,
  kReadStream,
  kWriteStream,
  kFlushStream,
  kSeek,
  kSync,
  kTruncate,
  kAllocate,
  kAdvise,
  kStatOpen,
  kReadDirectory,
  kRewindDirectory,
  kReadEntries,  // getdents64

  kStat,
  kTruncateName,
  kScanDirectory,
  kMakeDirectory,
  kRemoveDirectory,
  kUnlink,
  kRename,
  kLink,
};

Action action_of(wire::Call call);

// What an open file is to the program.
enum class HandleKind : uint8_t { kDescriptor, kStream, kDirectory };
HandleKind kind_of(Action action);

constexpr bool opens(Action action) {
  return action >= Action::kOpen && action <= Action::kOpenDirectory;
}
constexpr bool closes(Action action) {
  return action >= Action::kClose && action <= Action::kCloseDirectory;
}
constexpr bool uses_handle(Action action) {
  return action >= Action::kRead && action <= Action::kReadEntries;
}
constexpr bool is_on_name(Action action) { return action >= Action::kStat; }
constexpr bool is_replayed(Action action) { return action >= Action::kOpen; }
constexpr bool reads(Action action) {
  return action == Action::kRead || action == Action::kReadAt || action == Action::kReadMapped ||
         action == Action::kReadStream || action == Action::kTransfer;
}
constexpr bool writes(Action action) {
  return action == Action::kWrite || action == Action::kWriteAt || action == Action::kWriteStream;
}
// Calls that have a size in bytes, which --transfer-size filters.
constexpr bool moves_bytes(Action action) { return reads(action) || writes(action); }

// The flags of open(2) that the call has. `detail` is that of its event.
uint32_t open_flags(wire::Call call, uint32_t detail);

// Whether the call changes a file or a name if it succeeds.
bool changes(wire::Call call, uint32_t detail);

// A system call moves no more bytes.
inline constexpr uint64_t kMovedMax = 0x7ffff000;

}  // namespace millrace::replay
