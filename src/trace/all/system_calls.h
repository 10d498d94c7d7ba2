// SystemCalls: which system calls are followed from outside, and what their arguments mean.
//
// One table for the kernel's filter, which must know what to stop, and for the decoder, which must
// know what it stopped. A call that is not here runs at full speed and is not seen.
#pragma once

#include <cstdint>
#include <span>

#include "wire/trace_call.h"

namespace millrace::trace {

// What a call changes in what is known of its process.
enum class Effect : uint8_t {
  kNone,
  kOpens,             // the result is a descriptor of the file named
  kOpensUnknown,      // the result is a descriptor; the kernel is asked what of
  kCloses,            // argument 0
  kClosesRange,       // arguments 0 to 1
  kDuplicates,        // the result is a descriptor like argument 0
  kMoves,             // goes on at the file's position, by as many bytes as the result says
  kSeeks,             // the result is the new position
  kTransfers,         // moves the positions of both files, where no offsets are given
  kMaps,              // maps a file
  kUnmaps,            // argument 0, argument 1 bytes
  kRemaps,            // argument 0, argument 1 bytes, to argument 2 bytes
  kOnMapping,         // is about a mapping at argument 0
  kChangesDirectory,  // the working directory
  kForks,             // makes a process or a thread
  kExecutes,          // becomes another program
  kUnshares,          // leaves tables that it shared; not recorded
};

// Where a call has what: the number of the argument, or -1.
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
  int8_t parts = -1;  // an iovec, its count in the argument after
  int8_t detail = -1;
  int8_t attributes = -1;  // where the call writes a struct stat, or statx
};

struct SystemCall {
  int16_t number;
  wire::Call call;
  ArgumentPlaces at = {};
  Effect effect = Effect::kNone;
};

std::span<const SystemCall> followed_system_calls();

// Null for a call that is not followed.
const SystemCall* find_system_call(uint64_t number);

}  // namespace millrace::trace
