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

inline constexpr uint64_t kLifelineMagic = 0x4546494c454d5200;    // "\0RMELIFE" as bytes
inline constexpr uint64_t kInvitationMagic = 0x49564e49454d5200;  // "\0RMEINVI" as bytes
inline constexpr uint32_t kLifelineVersion = 2;

enum class LifelineKind : uint32_t {
  kChallenge = 1,  // rank 0's first: a nonce, and nothing that is secret
  kJoin = 2,       // the answer: a nonce, and who it is that knows the job's key
  kWelcome = 3,    // rank 0 has checked it, and knows the key as well
  kLost = 4,       // from rank 0: rank `rank` has gone without a kBye
  kBye = 5,        // the sender has no more to do with the others
};

struct LifelineMessage {
  uint64_t magic;     // kLifelineMagic
  uint32_t version;   // kLifelineVersion
  uint32_t kind;      // LifelineKind
  uint8_t nonce[16];  // of kChallenge and kJoin: random; of the others zero
  uint32_t rank;      // the sender; of kLost, the one that is lost; of kChallenge zero
  uint32_t pid;       // of that rank, on its host; of kChallenge zero
  char host[72];      // its host's name, ended by a zero; of kChallenge empty
  uint8_t tag[16];    // SipHash-2-4 of a LifelineSigned under the job's key
};
static_assert(sizeof(LifelineMessage) == 128);
static_assert(offsetof(LifelineMessage, tag) == 112);
static_assert(std::is_trivially_copyable_v<LifelineMessage>);

// What the tag of a message is made of. It is never sent: both ends know all of it. A message is so
// good for one connection, one direction and one place in it.
struct LifelineSigned {
  uint8_t hub_nonce[16];    // of rank 0's kChallenge
  uint8_t rank_nonce[16];   // of the other's kJoin; zero before that
  uint64_t from_hub;        // 1 for what rank 0 sends, else 0
  uint64_t index;           // how many messages the sender has sent before on this connection
  LifelineMessage message;  // with a tag of zeros
};
static_assert(sizeof(LifelineSigned) == 176);

// How the others find rank 0. MPI brings it to them; it has the key and never goes over the
// lifeline. The addresses follow as text, each ended by a newline.
struct LifelineInvitation {
  uint64_t magic;          // kInvitationMagic
  uint32_t version;        // kLifelineVersion
  uint32_t pid;            // of rank 0
  uint8_t key[16];         // random, the job's
  char host[72];           // of rank 0, ended by a zero
  uint32_t port;           // of rank 0, over 0 and below 65536
  uint32_t address_bytes;  // of the text that follows
};
static_assert(sizeof(LifelineInvitation) == 112);
static_assert(std::is_trivially_copyable_v<LifelineInvitation>);

}  // namespace millrace::wire
