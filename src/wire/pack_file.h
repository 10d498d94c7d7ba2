// Pack file: one partition of a pack. docs/formats/pack.md.
//
// A header, the members, an index of them, and a footer. The index has the whole path of each
// member, so a partition can be checked and listed without the catalogue, and the catalogue can be
// rebuilt from the partitions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/catalogue.h"
#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kPackMagic = 0x484b4341504d5200;     // "\0RMPACKH" on disk
inline constexpr uint64_t kPackEndMagic = 0x454b4341504d5200;  // "\0RMPACKE" on disk
inline constexpr uint32_t kPackVersion = 1;

// Members start at multiples of this. A cache line: a raw member in the mapping can be used as an
// array of any element, with aligned vector loads. Not a page, which would waste 2 KiB for each
// small file; nothing maps a single member by itself.
inline constexpr uint64_t kPackAlignment = 64;

// A member that is not raw consists of blocks with this many original bytes; the last may have
// fewer. They are compressed by themselves, so that a reader need not decompress what is before.
inline constexpr uint64_t kPackBlockBytes = uint64_t{1} << 20;

// After the blocks of a member follows a uint32 for each: its packed length. With this bit, the
// block is stored raw.
inline constexpr uint32_t kPackBlockRaw = uint32_t{1} << 31;

struct PackHeader {
  uint64_t magic;     // kPackMagic
  uint32_t version;   // kPackVersion
  uint32_t number;    // of the partition, 0-based
  uint64_t identity;  // the catalogue and all partitions have the same
  PartitionKind kind;
  uint32_t partition_count;
  uint32_t padding[7];  // zero
  uint32_t crc32c;      // of the header before this field
};
static_assert(sizeof(PackHeader) == 64);
static_assert(offsetof(PackHeader, crc32c) == 60);
static_assert(std::is_trivially_copyable_v<PackHeader>);

// In the index, followed by path_bytes of path and target_bytes of a link's target, or of the
// directory that was packed. The next record follows at once.
struct PackRecord {
  uint64_t size_bytes;    // original length of a file; otherwise 0
  uint64_t offset_bytes;  // of a file; otherwise 0
  uint64_t packed_bytes;  // of a file; otherwise 0
  int64_t mtime_ns;
  uint32_t entry;         // index in the catalogue
  uint32_t mode;          // permission bits
  uint32_t crc32c;        // as in CatalogueEntry
  uint32_t path_bytes;    // of the path relative to the root; of the root: 0
  uint32_t target_bytes;  // of a link's target; of the root: of the origin; otherwise 0
  EntryKind kind;
  PackCodec codec;
  uint8_t shuffle;
  uint8_t flags;
  uint64_t reserved;  // zero
};
static_assert(sizeof(PackRecord) == 64);
static_assert(std::is_trivially_copyable_v<PackRecord>);

// At the end of the file.
struct PackFooter {
  uint64_t magic;  // kPackEndMagic
  uint64_t identity;
  uint64_t index_offset;  // the index ends where the footer begins
  uint64_t record_count;
  uint64_t file_bytes;  // including this footer
  uint32_t index_crc32c;
  uint32_t padding[4];  // zero
  uint32_t crc32c;      // of the footer before this field
};
static_assert(sizeof(PackFooter) == 64);
static_assert(offsetof(PackFooter, crc32c) == 60);
static_assert(std::is_trivially_copyable_v<PackFooter>);

}  // namespace millrace::wire
