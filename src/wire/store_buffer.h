// StoreBuffer: the files that `store --buffer` keeps on local storage until they are durable on the
// shared file system. docs/formats/store-buffer.md.
//
// BUFFER/journal has a header and then records, which are only appended, each by one write under
// flock(journal). BUFFER/data/ID has the content of a file; BUFFER/names/PATH is a symbolic link
// that tells programs of the node what has the name. BUFFER/progress says what was executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr char kBufferJournal[] = "journal";
inline constexpr char kBufferProgress[] = "progress";
inline constexpr char kBufferDrainLock[] =
    "drain.lock";  // the drainer holds a lock (F_OFD_SETLK) on it
inline constexpr char kBufferDirectories[] = "directories";  // store/buffer/directories.h
inline constexpr char kBufferData[] = "data";
inline constexpr char kBufferNames[] = "names";

// Targets of the links in names/.
inline constexpr std::string_view kBufferDataPrefix = "data/";  // + 16 hexadecimal digits: the id
inline constexpr std::string_view kBufferRemoved = "removed";   // whatever the upper directory has
inline constexpr size_t kBufferTargetBytes = 21;

inline constexpr uint64_t kBufferMagic = 0x4a46'4255'534d'5200;  // "\0RMSUBFJ" as bytes
inline constexpr uint32_t kBufferVersion = 1;
inline constexpr uint32_t kBufferRecordMagic = 0x5245'4aff;  // "\xffJER" as bytes
inline constexpr size_t kBufferPathMax = 4095;

// Followed by the upper directory, the root and the name of the job, without zeros.
struct BufferHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t crc;         // CRC-32C of what follows, up to the first record
  uint32_t size_bytes;  // where the first record starts
  uint16_t upper_bytes;
  uint16_t root_bytes;
  uint16_t job_bytes;
  uint16_t reserved;
  char boot_id[36];  // of the kernel that wrote it
};
static_assert(sizeof(BufferHeader) == 64);
static_assert(std::is_trivially_copyable_v<BufferHeader>);

enum class BufferRecordKind : uint16_t {
  kOpened = 1,      // `from` is now the file `id`, opened for writing
  kClosed = 2,      // a writer of `id` has closed it
  kSynced = 3,      // `id` has `value` bytes, which are durable here
  kRenamed = 4,     // `from` became `to`
  kRemoved = 5,     // `from` was removed
  kAttributes = 6,  // mode or time of `id` changed
};

// Followed by the paths `from` and `to`, relative to the root, without zeros.
struct BufferRecord {
  uint32_t magic;
  uint32_t crc;  // CRC-32C of what follows
  uint32_t size_bytes;
  BufferRecordKind kind;
  uint16_t from_bytes;  // `to` has the rest
  uint64_t id;
  uint64_t value;
  uint64_t time_ns;  // since 1970
};
static_assert(sizeof(BufferRecord) == 40);
static_assert(std::is_trivially_copyable_v<BufferRecord>);
inline constexpr size_t kBufferRecordMax = sizeof(BufferRecord) + 2 * kBufferPathMax;

// Written by the drainer. A record is executed if it ends at or before `offset` and is not younger
// than `time_ns`: one that is younger came after the journal was truncated.
struct BufferProgress {
  uint64_t generation;  // how often the journal was truncated
  uint64_t offset;
  uint64_t time_ns;
  uint64_t copy_token;  // a temporary file of this token may be left; 0: none
  uint64_t beat;        // changes as long as something is copied
  uint32_t error;       // errno value that stops the queue; 0: none
  uint32_t reserved;    // 0
  uint64_t written_ns;  // since 1970, when this was written
  char reason[200];     // what stops the queue, for people; zero-terminated
};
static_assert(sizeof(BufferProgress) == 256);
static_assert(std::is_trivially_copyable_v<BufferProgress>);

// The name of a copy that is being made in the upper directory: this, 16 hexadecimal digits, and an
// end.
inline constexpr std::string_view kBufferCopyPrefix = ".millrace-";
inline constexpr std::string_view kBufferCopyEnd = ".part";

inline bool is_buffer_copy(std::string_view name) {
  constexpr size_t kPrefix = kBufferCopyPrefix.size();
  return name.size() == kPrefix + 16 + kBufferCopyEnd.size() &&
         std::memcmp(name.data(), kBufferCopyPrefix.data(), kPrefix) == 0 &&
         std::memcmp(name.data() + kPrefix + 16, kBufferCopyEnd.data(), kBufferCopyEnd.size()) == 0;
}

// CRC-32C, four bits at a time: records are short, and preload code has no run time to choose an
// instruction by.
inline uint32_t buffer_crc(const void* bytes, size_t size) {
  constexpr uint32_t kNibbles[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                     0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                     0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                     0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
  uint32_t crc = ~uint32_t{0};
  for (const auto* at = static_cast<const unsigned char*>(bytes); size > 0; ++at, --size) {
    crc = (crc >> 4) ^ kNibbles[(crc ^ *at) & 15];
    crc = (crc >> 4) ^ kNibbles[(crc ^ (*at >> 4)) & 15];
  }
  return ~crc;
}

inline constexpr size_t kBufferHeaderUnchecked = offsetof(BufferHeader, size_bytes);
inline constexpr size_t kBufferRecordUnchecked = offsetof(BufferRecord, size_bytes);

// A path that stays below the directory it is joined to.
inline bool is_buffer_path(std::string_view path) {
  if (path.empty() || path.size() > kBufferPathMax) return false;
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = begin;
    while (end < path.size() && path[end] != '/' && path[end] != '\0') ++end;
    if (end < path.size() && path[end] == '\0') return false;
    const std::string_view part(path.data() + begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

struct BufferRecordView {
  BufferRecord record;
  std::string_view from;
  std::string_view to;
};

// The record at the start of `bytes`, if a valid one starts there.
inline bool parse_buffer_record(std::string_view bytes, BufferRecordView& view) {
  BufferRecord& record = view.record;
  if (bytes.size() < sizeof(record)) return false;
  std::memcpy(&record, bytes.data(), sizeof(record));
  if (record.magic != kBufferRecordMagic || record.size_bytes > bytes.size() ||
      record.size_bytes > kBufferRecordMax ||
      record.size_bytes < sizeof(record) + record.from_bytes ||
      record.crc != buffer_crc(bytes.data() + kBufferRecordUnchecked,
                               record.size_bytes - kBufferRecordUnchecked)) {
    return false;
  }
  view.from = {bytes.data() + sizeof(record), record.from_bytes};
  view.to = {view.from.data() + view.from.size(),
             record.size_bytes - sizeof(record) - record.from_bytes};
  switch (record.kind) {
    case BufferRecordKind::kOpened:
      return record.id != 0 && is_buffer_path(view.from) && view.to.empty();
    case BufferRecordKind::kClosed:
    case BufferRecordKind::kSynced:
    case BufferRecordKind::kAttributes:
      return record.id != 0 && view.from.empty() && view.to.empty();
    case BufferRecordKind::kRenamed:
      return is_buffer_path(view.from) && is_buffer_path(view.to);
    case BufferRecordKind::kRemoved:
      return is_buffer_path(view.from) && view.to.empty();
  }
  return false;
}

// "data/" and the id.
inline void write_buffer_target(uint64_t id, char (&out)[kBufferTargetBytes + 1]) {
  std::memcpy(out, kBufferDataPrefix.data(), kBufferDataPrefix.size());
  for (size_t i = 0; i < 16; ++i) {
    out[kBufferDataPrefix.size() + i] = "0123456789abcdef"[(id >> (60 - 4 * i)) & 15];
  }
  out[kBufferTargetBytes] = '\0';
}

// 0 if the target is not one of a file.
inline uint64_t parse_buffer_target(std::string_view target) {
  const std::string_view prefix(target.data(), target.size() < kBufferDataPrefix.size()
                                                   ? target.size()
                                                   : kBufferDataPrefix.size());
  if (target.size() != kBufferTargetBytes || prefix != kBufferDataPrefix) return 0;
  uint64_t id = 0;
  for (size_t i = kBufferDataPrefix.size(); i < target.size(); ++i) {
    const char c = target[i];
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c < 'a' || c > 'f')) return 0;
    id = id << 4 | static_cast<uint64_t>(is_digit ? c - '0' : c - 'a' + 10);
  }
  return id;
}

}  // namespace millrace::wire
