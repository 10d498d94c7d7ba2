// LifelineMessage: what ranks tell each other beside MPI, so that a dead one is noticed.
// docs/formats/lifeline.md.
//
// All kinds have one size, so that a reader needs no state. It lives as long as a job: every rank
// runs the same build, and another version is refused and not converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kLifelineMagic = 0x4546494c454d5200;  // "\0RMELIFE" as bytes
inline constexpr uint32_t kLifelineVersion = 1;

enum class LifelineKind : uint32_t {
  kHello = 1,  // the first message in both directions: this is rank `rank` of the job `key`
  kLost = 2,   // from rank 0: rank `rank` has gone without a kBye
  kBye = 3,    // the sender has no more to do with the others
};

struct LifelineMessage {
  uint64_t magic;    // kLifelineMagic
  uint32_t version;  // kLifelineVersion
  uint32_t kind;     // LifelineKind
  uint64_t key[2];   // random, the job's; a stranger on the port does not know it
  uint32_t rank;     // the sender; of kLost, the one that is lost
  uint32_t pid;      // of that rank, on its host
  char host[68];     // its host's name, ended by a zero
  uint32_t crc32c;   // of the message with this field zero
};
static_assert(sizeof(LifelineMessage) == 112);
static_assert(offsetof(LifelineMessage, crc32c) == 108);
static_assert(std::is_trivially_copyable_v<LifelineMessage>);

}  // namespace millrace::wire
