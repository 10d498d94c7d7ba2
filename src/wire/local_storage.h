// Ownership and exchange: what a rank keeps of the samples on its own disk, and what ranks send
// each other when they exchange some. docs/formats/local-storage.md.
//
// Ownership outlives the job: a rank that is started again reads it. Exchange messages live as long
// as a job; every rank runs the same build, and another version is refused and not converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kOwnershipMagic = 0x44454e574f4d5200;  // "\0RMOWNED" as bytes
inline constexpr uint32_t kOwnershipVersion = 1;

struct OwnershipHead {
  uint64_t magic;         // kOwnershipMagic
  uint32_t version;       // kOwnershipVersion
  uint32_t crc32c;        // of the whole file with this field zero
  uint64_t sample_count;  // of the dataset
  uint64_t seed;
  double fraction;
  uint32_t shard_count;
  uint32_t rank;        // whose shard this is
  uint64_t epoch;       // in which this is what the rank holds
  uint64_t slot_count;  // entries that follow
};
static_assert(sizeof(OwnershipHead) == 64);
static_assert(offsetof(OwnershipHead, crc32c) == 12);
static_assert(std::is_trivially_copyable_v<OwnershipHead>);

struct OwnershipEntry {
  uint64_t sample;
  uint64_t offset_bytes;  // in the file of samples
  uint64_t size_bytes;
  uint32_t crc32c;  // of the sample's bytes
  uint32_t zero;
};
static_assert(sizeof(OwnershipEntry) == 32);
static_assert(std::is_trivially_copyable_v<OwnershipEntry>);

inline constexpr uint64_t kExchangeMagic = 0x474e4843584d5200;  // "\0RMXCHNG" as bytes
inline constexpr uint32_t kExchangeVersion = 1;

// The begin of a message; `sample_count` times an ExchangedSample and its bytes follow.
struct ExchangeHead {
  uint64_t magic;    // kExchangeMagic
  uint32_t version;  // kExchangeVersion
  uint32_t sample_count;
  uint64_t epoch;
  uint64_t round;
};
static_assert(sizeof(ExchangeHead) == 32);
static_assert(std::is_trivially_copyable_v<ExchangeHead>);

struct ExchangedSample {
  uint64_t sample;
  uint64_t size_bytes;
  uint32_t crc32c;  // of the sample's bytes
  uint32_t zero;
};
static_assert(sizeof(ExchangedSample) == 24);
static_assert(std::is_trivially_copyable_v<ExchangedSample>);

}  // namespace millrace::wire
