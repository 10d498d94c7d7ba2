// LifelineMessage: messages between ranks outside MPI, so that a dead rank is noticed.
// docs/formats/lifeline.md.
//
// All kinds have the same size, so that a reader needs no state. Messages live as long as a job.
// All ranks run the same build, so another version is refused, not converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kLifelineMagic = 0x4546494c454d5200;    // "\0RMELIFE" as bytes
inline constexpr uint64_t kInvitationMagic = 0x49564e49454d5200;  // "\0RMEINVI" as bytes
inline constexpr uint32_t kLifelineVersion = 3;

enum class LifelineKind : uint32_t {
  kChallenge = 1,  // rank 0's first message: a nonce, nothing secret
  kJoin = 2,       // the reply: a nonce, and who the sender is; proves that it knows the job's key
  kWelcome = 3,    // rank 0 has checked the reply, and proves that it knows the key too
  kLost = 4,       // from rank 0: rank `rank` has died without a kBye
  kBye = 5,        // the sender no longer needs the others
  kSilent = 6,     // from rank 0: nothing comes from the host of rank `rank` any more
};

struct LifelineMessage {
  uint64_t magic;     // kLifelineMagic
  uint32_t version;   // kLifelineVersion
  uint32_t kind;      // LifelineKind
  uint8_t nonce[16];  // random in kChallenge and kJoin; zero in the others
  uint32_t rank;      // the sender; in kLost and kSilent, the lost rank; in kChallenge, zero
  uint32_t pid;       // of that rank, on its host; in kChallenge, zero
  char host[72];      // its host's name, zero-terminated; in kChallenge, empty
  uint8_t tag[16];    // SipHash-2-4 of a LifelineSigned with the job's key
};
static_assert(sizeof(LifelineMessage) == 128);
static_assert(offsetof(LifelineMessage, tag) == 112);
static_assert(std::is_trivially_copyable_v<LifelineMessage>);

// The input of a message's tag. It is never sent: both ends know all of it. A message is therefore
// valid for one connection, one direction and one position only.
struct LifelineSigned {
  uint8_t hub_nonce[16];    // of rank 0's kChallenge
  uint8_t rank_nonce[16];   // of the other rank's kJoin; zero before that
  uint64_t from_hub;        // 1 if rank 0 sends the message, else 0
  uint64_t index;           // how many messages the sender has already sent on this connection
  LifelineMessage message;  // with a tag of zeros
};
static_assert(sizeof(LifelineSigned) == 176);

// How the other ranks find rank 0. It travels over MPI, never over the lifeline, because it
// contains the key. The addresses follow as text, each ended by a newline.
struct LifelineInvitation {
  uint64_t magic;          // kInvitationMagic
  uint32_t version;        // kLifelineVersion
  uint32_t pid;            // of rank 0
  uint8_t key[16];         // random; the key of the job
  char host[72];           // of rank 0, zero-terminated
  uint32_t port;           // of rank 0, 1 to 65535
  uint32_t address_bytes;  // of the text that follows
};
static_assert(sizeof(LifelineInvitation) == 112);
static_assert(std::is_trivially_copyable_v<LifelineInvitation>);

}  // namespace millrace::wire
