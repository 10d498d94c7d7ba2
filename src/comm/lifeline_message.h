// Lifeline messages: made with a tag that only who knows the job's key can make, and checked before
// anything in them is believed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "base/siphash.h"
#include "comm/comm.h"
#include "wire/lifeline.h"

namespace millrace::comm {

using JobKey = SipHashKey;
using Nonce = std::array<uint8_t, sizeof(wire::LifelineMessage::nonce)>;

// From the system's random numbers.
Result<Nonce> make_nonce();
Result<JobKey> make_key();

// A rank as people find it again in a log or a batch system.
struct RankName {
  Rank rank = kFirstRank;
  uint32_t pid = 0;
  std::string host;

  std::string text() const;  // "rank 2 (process 4711 on node7)"
};

RankName own_name(Rank rank);

// Without its tag.
wire::LifelineMessage make_message(wire::LifelineKind kind, const RankName& name,
                                   const Nonce& nonce = {});

// Whether the bytes are a message of this version that makes sense, whoever made it.
// REQUIRES: bytes.size() == sizeof(wire::LifelineMessage).
Result<wire::LifelineMessage> read_message(ByteView bytes, uint32_t world_size);

RankName name_in(const wire::LifelineMessage& message);

// The two directions of one connection, as one end of it signs what it sends and checks what it
// receives, in order. Both ends have taken the nonces from the messages that brought them.
class LifelineChannel {
 public:
  enum class End { kHub, kRank };

  LifelineChannel() = default;
  LifelineChannel(End end, const JobKey& key) : key_(key), is_hub_(end == End::kHub) {}

  // The message with its tag; it must be the next that is sent.
  wire::LifelineMessage sign(wire::LifelineMessage message);

  // The next message that has come, if the other end knows the key.
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

// How the others find rank 0, and the key. Brought to them by MPI.
struct Invitation {
  RankName hub;
  JobKey key = {};
  uint16_t port = 0;
  std::vector<std::string> addresses;

  std::string text() const;
};

Result<Invitation> read_invitation(std::string_view text);

}  // namespace millrace::comm
