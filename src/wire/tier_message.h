// TierQuestion and TierAnswer: how ranks ask each other for samples. docs/formats/tier-messages.md.
//
// Messages live as long as a job, and all ranks run the same build. A message of another version is
// answered, and treated, as "not here".
#pragma once

#include <cstdint>
#include <type_traits>

namespace millrace::wire {

inline constexpr uint32_t kTierMessageVersion = 1;

struct TierQuestion {
  uint32_t version;  // kTierMessageVersion
  uint32_t zero;
  uint64_t sample;
};
static_assert(sizeof(TierQuestion) == 16);
static_assert(std::is_trivially_copyable_v<TierQuestion>);

// Precedes the bytes of the sample, which end the message.
struct TierAnswer {
  uint32_t version;  // kTierMessageVersion
  uint32_t is_held;  // 0: not here, and no bytes follow
  uint64_t sample;
  uint64_t size_bytes;
  uint32_t crc32c;  // of the bytes
  uint32_t zero;
};
static_assert(sizeof(TierAnswer) == 32);
static_assert(std::is_trivially_copyable_v<TierAnswer>);

}  // namespace millrace::wire
