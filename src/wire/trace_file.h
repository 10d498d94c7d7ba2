// TraceFile: the bytes of a packed trace, *.mrt. docs/formats/trace.md.
//
// A header, then blocks, then an index and a trailer that points to it. The header of each block
// gives its kind, its length and its checksums. A file whose end is missing is read block by block.
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

// Events of this file count only if a commit covers them. The others are still in the recording.
inline constexpr uint32_t kTraceFileNeedsCommit = 1;

struct TraceFileHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t flags;
  int64_t origin_wall_ns;  // wall time at time zero of this file
  uint64_t reserved[4];
  uint32_t reserved2;
  uint32_t crc32c;  // of the bytes before this field
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
  uint32_t payload_bytes;   // bytes that follow this header
  uint32_t raw_bytes;       // of the payload before compression
  uint32_t payload_crc32c;  // of the payload as stored
  uint32_t count;           // events, or entries of a table
  uint32_t process;         // that the events belong to
  uint32_t reserved;
  uint64_t begin_ns;  // the earliest begin of an event
  uint64_t end_ns;    // the latest end
  uint32_t reserved2;
  uint32_t crc32c;  // of the bytes before this field
};
static_assert(sizeof(TraceBlockHeader) == 56);
static_assert(std::is_trivially_copyable_v<TraceBlockHeader>);

struct TraceTrailer {
  uint64_t index_offset;  // where the header of the index block is
  uint32_t reserved;
  uint32_t crc32c;  // of the 12 bytes before
  uint64_t magic;
};
static_assert(sizeof(TraceTrailer) == 24);
static_assert(std::is_trivially_copyable_v<TraceTrailer>);

// Limits on what a reader must hold at once.
inline constexpr uint32_t kTraceBlockEventsMax = 65536;
inline constexpr uint32_t kTraceBlockTagsMax = 1u << 20;
inline constexpr uint32_t kTraceBlockBytesMax = 64u << 20;

}  // namespace millrace::wire
