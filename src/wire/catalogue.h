// Catalogue: the names and places of all files of a pack, in one file that every process maps.
// docs/formats/pack.md.
//
// Position-independent: a header, the entries, a hash table, the partitions, and the names. Plain
// structs only; wire/catalogue_view.h finds a path in the mapped bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kCatalogueMagic = 0x4c415441434d5200;  // "\0RMCATAL" on disk
inline constexpr uint32_t kCatalogueVersion = 1;
inline constexpr uint32_t kEntryMax = 0xffff'fffe;  // indices fit into 32 bits, and so does + 1

enum class EntryKind : uint8_t { kFile = 1, kDirectory = 2, kLink = 3 };

// How the bytes of a file are stored. A file that is not raw consists of blocks (pack_file.h).
enum class PackCodec : uint8_t { kRaw = 0, kLz4 = 1, kZstd = 2 };

inline constexpr uint8_t kEntryBroadcast = 1;  // a bit of `flags`: every node has the file

// A file, directory or symbolic link. Entry 0 is the root. The children of a directory are
// consecutive and sorted by name, and come after it; so `parent` is always lower than the index.
struct CatalogueEntry {
  uint64_t size_bytes;    // file: length; link: length of its target; directory: child count
  uint64_t offset_bytes;  // file: in its partition; link: of its target in the names; directory:
                          // index of its first child
  uint64_t packed_bytes;  // file: in its partition; otherwise 0
  int64_t mtime_ns;       // since 1970
  uint64_t name_offset;   // in the names; the last component of the path, without a zero at the end
  uint32_t parent;        // of the root: 0
  uint32_t mode;          // permission bits, at most 07777
  uint32_t partition;     // of a file; otherwise 0
  uint32_t crc32c;        // of the file's original bytes or of the link's target; directory: 0
  uint8_t name_bytes;     // of the root: 0
  EntryKind kind;
  PackCodec codec;
  uint8_t shuffle;  // size of the elements whose bytes were shuffled before compression: 2, 4, 8;
                    // 0: none
  uint8_t flags;
  uint8_t reserved[3];  // zero
};
static_assert(sizeof(CatalogueEntry) == 64);
static_assert(std::is_trivially_copyable_v<CatalogueEntry>);

// A place of the hash table, for open addressing with linear probing.
struct CatalogueSlot {
  uint32_t tag;         // the upper half of path_hash()
  uint32_t index_next;  // index of the entry + 1; 0: the place is free
};
static_assert(sizeof(CatalogueSlot) == 8);

enum class PartitionKind : uint32_t {
  kPack = 1,
  kBroadcast = 2,  // a pack that every node gets
  kTar = 3,        // a tar file, unchanged
};

struct CataloguePartition {
  uint64_t file_bytes;
  uint64_t name_offset;  // in the names: a file name, or for tar files a path
  int64_t mtime_ns;      // of a tar file, to detect another one; otherwise 0
  uint32_t name_bytes;
  PartitionKind kind;
};
static_assert(sizeof(CataloguePartition) == 32);

// At the start. These follow without gaps: entry_count entries, slot_count slots, partition_count
// partitions, names_bytes of names.
struct CatalogueHeader {
  uint64_t magic;    // kCatalogueMagic
  uint32_t version;  // kCatalogueVersion
  uint32_t partition_count;
  uint64_t identity;  // the partitions have the same, except tar files
  uint64_t entry_count;
  uint64_t slot_count;  // a power of two, more than the entries
  uint64_t names_bytes;
  uint64_t file_count;     // entries that are files
  uint64_t content_bytes;  // the sum of their lengths
  uint64_t origin_offset;  // in the names: the directory that was packed
  uint32_t origin_bytes;
  uint32_t body_crc32c;  // of everything after this header
  uint32_t padding[11];  // zero
  uint32_t crc32c;       // of the header before this field
};
static_assert(sizeof(CatalogueHeader) == 128);
static_assert(offsetof(CatalogueHeader, crc32c) == 124);
static_assert(std::is_trivially_copyable_v<CatalogueHeader>);

}  // namespace millrace::wire
