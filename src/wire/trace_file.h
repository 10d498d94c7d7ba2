// TraceFile: the bytes of a packed trace, *.mrt. docs/formats/trace.md.
//
// A header, then blocks one after the other, each with a head of its own that says what it is, how
// long it is, and how to see that it is whole; at the end an index and a trailer that points to it.
// A file without its end is read by going from block to block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint32_t kTraceFileVersion = 1;
inline constexpr uint64_t kTraceFileMagic = 0x4543'4152'5452'4d89;     // "\x89MRTRACE"
inline constexpr uint64_t kTraceTrailerMagic = 0x0a44'4e45'5452'4d89;  // "\x89MRTEND\n"
inline constexpr uint32_t kTraceBlockMagic = 0x4b42'4d89;              // "\x89MBK"

// The events of this file count only where a commit covers them: the rest is still in the recording
// it is made from.
inline constexpr uint32_t kTraceFileNeedsCommit = 1;

struct TraceFileHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t flags;
  int64_t origin_wall_ns;  // wall time of the zero of the file's times
  uint64_t reserved[4];
  uint32_t reserved2;
  uint32_t crc32c;  // of the bytes before
};
static_assert(sizeof(TraceFileHeader) == 64);
static_assert(std::is_trivially_copyable_v<TraceFileHeader>);

enum class TraceBlockKind : uint16_t {
  kNames = 1,
  kSessions = 2,
  kProcesses = 3,
  kThreads = 4,
  kLosses = 5,
  kEvents = 6,
  kCommit = 7,
  kClock = 8,
  kIndex = 9,
  kRankOrigins = 10,
};

inline constexpr uint16_t kTraceBlockCompressed = 1;  // the payload is a zstd frame of raw_bytes

struct TraceBlockHeader {
  uint32_t magic;
  TraceBlockKind kind;
  uint16_t flags;
  uint32_t payload_bytes;   // that follow this header
  uint32_t raw_bytes;       // of the payload before compression
  uint32_t payload_crc32c;  // of the payload as it is in the file
  uint32_t count;           // events, or entries of a table
  uint32_t process;         // of the events
  uint32_t reserved;
  uint64_t begin_ns;  // the earliest begin of the events
  uint64_t end_ns;    // their latest end
  uint32_t reserved2;
  uint32_t crc32c;  // of the header's bytes before
};
static_assert(sizeof(TraceBlockHeader) == 56);
static_assert(std::is_trivially_copyable_v<TraceBlockHeader>);

struct TraceTrailer {
  uint64_t index_offset;  // of the index block's header
  uint32_t reserved;
  uint32_t crc32c;  // of the 12 bytes before
  uint64_t magic;
};
static_assert(sizeof(TraceTrailer) == 24);
static_assert(std::is_trivially_copyable_v<TraceTrailer>);

// What a reader may be asked to hold at once.
inline constexpr uint32_t kTraceBlockEventsMax = 65536;
inline constexpr uint32_t kTraceBlockTagsMax = 1u << 20;
inline constexpr uint32_t kTraceBlockBytesMax = 64u << 20;

}  // namespace millrace::wire
