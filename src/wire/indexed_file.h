// Indexed: a data file of consecutive samples, and an index file with the position of each.
// docs/formats/indexed.md.
//
// With two files, the data is written in one pass and the index is read in one: opening ten million
// samples takes one read. Both files carry the same identity, so that an index of other data is
// detected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kIndexedDataMagic = 0x41544144494d5200;   // "\0RMIDATA" on disk
inline constexpr uint64_t kIndexedIndexMagic = 0x5845444e494d5200;  // "\0RMINDEX" on disk
inline constexpr uint32_t kIndexedVersion = 1;

inline constexpr uint32_t kIndexedHasLabels = 1;  // a bit of `flags`

// At the start of the data file. The samples follow at once.
struct IndexedDataHeader {
  uint64_t magic;     // kIndexedDataMagic
  uint32_t version;   // kIndexedVersion
  uint32_t reserved;  // zero
  uint64_t identity;  // the index has the same
  uint64_t sample_count;
  uint64_t data_bytes;  // the length of the data file, including this header
  uint32_t padding[5];  // zero
  uint32_t crc32c;      // of the header before this field
};
static_assert(sizeof(IndexedDataHeader) == 64);
static_assert(offsetof(IndexedDataHeader, crc32c) == 60);
static_assert(std::is_trivially_copyable_v<IndexedDataHeader>);

// At the start of the index file. Three tables follow without gaps: sample_count ends (uint64: the
// byte after the sample in the data file), sample_count checksums (uint32: crc32c of the sample)
// and, with kIndexedHasLabels, sample_count labels (int32: -1 for none).
struct IndexedIndexHeader {
  uint64_t magic;    // kIndexedIndexMagic
  uint32_t version;  // kIndexedVersion
  uint32_t flags;    // kIndexedHasLabels, or none
  uint64_t identity;
  uint64_t sample_count;
  uint64_t data_bytes;
  uint32_t tables_crc32c;  // of everything after this header
  uint32_t padding[4];     // zero
  uint32_t crc32c;         // of the header before this field
};
static_assert(sizeof(IndexedIndexHeader) == 64);
static_assert(offsetof(IndexedIndexHeader, crc32c) == 60);
static_assert(std::is_trivially_copyable_v<IndexedIndexHeader>);

}  // namespace millrace::wire
