// Lifeline messages. Each carries a tag that only a holder of the job's key can compute. The tag is
// checked before anything in the message is trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/hash/siphash.h"
#include "base/result.h"
#include "comm/comm.h"
#include "wire/lifeline.h"

namespace millrace::comm {

using JobKey = SipHashKey;
using Nonce = std::array<uint8_t, sizeof(wire::LifelineMessage::nonce)>;

// From the system's random number generator.
Result<Nonce> make_nonce();
Result<JobKey> make_key();

// A rank with what people need to find it in a log or a batch system.
struct RankName {
  Rank rank = kFirstRank;
  uint32_t pid = 0;
  std::string host;

  std::string text() const;  // "rank 2 (process 4711 on node7)"
};

RankName own_name(Rank rank);

// A rank that is lost to the others.
struct LostName : RankName {
  // Its host does not answer. Otherwise its connection was closed: the process has ended.
  bool is_silent = false;
};

// The tag is left empty.
wire::LifelineMessage make_message(wire::LifelineKind kind, const RankName& name,
                                   const Nonce& nonce = {});

// Checks version and fields, but not who made the message.
// REQUIRES: bytes.size() == sizeof(wire::LifelineMessage).
Result<wire::LifelineMessage> read_message(ByteView bytes, uint32_t world_size);

RankName name_in(const wire::LifelineMessage& message);

// One end of a connection: signs what it sends and checks what it receives, in order. Both ends
// take the nonces from the kChallenge and kJoin messages.
class LifelineChannel {
 public:
  enum class End { kHub, kRank };

  LifelineChannel() = default;
  LifelineChannel(End end, const JobKey& key) : key_(key), is_hub_(end == End::kHub) {}

  // Adds the tag. The message must be the next one that is sent.
  wire::LifelineMessage sign(wire::LifelineMessage message);

  // Reads the next message. Fails unless the other end knows the key.
  // REQUIRES: bytes.size() == sizeof(wire::LifelineMessage).
  Result<wire::LifelineMessage> check(ByteView bytes, uint32_t world_size);

 private:
  struct Nonces {
    Nonce hub = {};
    Nonce rank = {};

    void take_from(const wire::LifelineMessage& message);
  };

  SipHashTag tag_of(wire::LifelineMessage message, const Nonces& nonces, bool from_hub,
                    uint64_t index) const;

  JobKey key_ = {};
  bool is_hub_ = false;
  Nonces nonces_;
  uint64_t sent_count_ = 0;
  uint64_t received_count_ = 0;
};

// How the other ranks find rank 0, and the key. MPI broadcasts it.
struct Invitation {
  RankName hub;
  JobKey key = {};
  uint16_t port = 0;
  std::vector<std::string> addresses;

  std::string text() const;
};

Result<Invitation> read_invitation(std::string_view text);

}  // namespace millrace::comm
