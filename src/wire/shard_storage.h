// Ownership and exchange: the samples that a rank holds on its own disk, and the messages in which
// ranks exchange some of them. docs/formats/shard-storage.md.
//
// Ownership outlives the job: a restarted rank reads it. Exchange messages live as long as the job.
// All ranks run the same build, so another version is refused, not converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kOwnershipMagic = 0x44454e574f4d5200;  // "\0RMOWNED" as bytes
inline constexpr uint32_t kOwnershipVersion = 3;

struct OwnershipHead {
  uint64_t magic;         // kOwnershipMagic
  uint32_t version;       // kOwnershipVersion
  uint32_t crc32c;        // of the whole file with this field zero
  uint64_t sample_count;  // of the dataset
  uint64_t seed;
  double fraction;
  uint32_t shard_count;
  uint32_t rank;        // whose shard this is
  uint64_t epoch;       // the epoch for which these entries hold
  uint64_t slot_count;  // entries that follow
  uint64_t dataset;     // tells datasets of the same sample count apart; 0: unknown
};
static_assert(sizeof(OwnershipHead) == 72);
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

inline constexpr uint64_t kStagedMagic = 0x45474154534d5200;  // "\0RMSTAGE" as bytes
inline constexpr uint32_t kStagedVersion = 1;

// The start of the file that lists what has been staged so far. StagedEntries follow.
struct StagedHead {
  uint64_t magic;    // kStagedMagic
  uint32_t version;  // kStagedVersion
  uint32_t crc32c;   // of this head with this field zero
  uint64_t sample_count;
  uint64_t dataset;
};
static_assert(sizeof(StagedHead) == 32);
static_assert(offsetof(StagedHead, crc32c) == 12);
static_assert(std::is_trivially_copyable_v<StagedHead>);

struct StagedEntry {
  uint64_t sample;
  uint64_t offset_bytes;  // in the file of samples
  uint64_t size_bytes;
  uint32_t crc32c;        // of the sample's bytes
  uint32_t entry_crc32c;  // of the 28 bytes before
};
static_assert(sizeof(StagedEntry) == 32);
static_assert(offsetof(StagedEntry, entry_crc32c) == 28);
static_assert(std::is_trivially_copyable_v<StagedEntry>);

inline constexpr uint64_t kExchangeMagic = 0x474e4843584d5200;  // "\0RMXCHNG" as bytes
inline constexpr uint32_t kExchangeVersion = 1;

// The start of a message. `sample_count` pairs of an ExchangedSample and its bytes follow.
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
