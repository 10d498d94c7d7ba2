// SystemCalls: the system calls that are followed from outside, and the meaning of their arguments.
//
// One table for the kernel's filter, which must know where to stop, and for the decoder, which must
// know what stopped. Calls that are not listed run at full speed and are not seen.
#pragma once

#include <cstdint>
#include <span>

#include "wire/trace_call.h"

namespace millrace::trace {

// How a call changes the tracked state of its process.
enum class Effect : uint8_t {
  kNone,
  kOpens,             // the result is a descriptor of the named file
  kOpensUnknown,      // the result is a descriptor; the kernel is asked of what
  kCloses,            // argument 0
  kClosesRange,       // arguments 0 to 1
  kDuplicates,        // the result is a descriptor like argument 0
  kMoves,             // at the file's position, which moves by the result
  kSeeks,             // the result is the new position
  kTransfers,         // moves the positions of both files, if no offsets are given
  kMaps,              // maps a file
  kUnmaps,            // argument 0, argument 1 bytes
  kRemaps,            // argument 0, argument 1 bytes, resized to argument 2 bytes
  kOnMapping,         // concerns a mapping at argument 0
  kChangesDirectory,  // the working directory
  kForks,             // makes a process or a thread
  kExecutes,          // becomes another program
  kUnshares,          // stops sharing tables; not recorded
};

// The positions of a call's arguments; -1: none.
struct ArgumentPlaces {
  int8_t fd = -1;
  int8_t directory = -1;  // of `path`; -1 with a path: the working directory
  int8_t path = -1;
  int8_t other_fd = -1;
  int8_t other_directory = -1;
  int8_t other_path = -1;
  int8_t offset = -1;
  int8_t offset_at = -1;  // a pointer to the offset; null: the file's position
  int8_t other_offset_at = -1;
  int8_t size = -1;
  int8_t buffers = -1;  // an iovec; its count is the next argument
  int8_t detail = -1;
  int8_t attributes = -1;  // where the call writes a struct stat or statx
};

struct SystemCall {
  int16_t number;
  wire::Call call;
  ArgumentPlaces at = {};
  Effect effect = Effect::kNone;
};

std::span<const SystemCall> followed_system_calls();

// Null if the call is not followed.
const SystemCall* find_system_call(uint64_t number);

}  // namespace millrace::trace
