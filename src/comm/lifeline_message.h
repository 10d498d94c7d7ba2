// Lifeline messages: made with their checksum, and checked before anything in them is believed.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "comm/comm.h"
#include "wire/lifeline.h"

namespace millrace::comm {

using JobKey = std::array<uint64_t, 2>;

// A rank as people find it again in a log or a batch system.
struct RankName {
  Rank rank = kFirstRank;
  uint32_t pid = 0;
  std::string host;

  std::string text() const;  // "rank 2 (process 4711 on node7)"
};

RankName own_name(Rank rank);

wire::LifelineMessage make_message(wire::LifelineKind kind, const JobKey& key,
                                   const RankName& name);

// REQUIRES: bytes.size() == sizeof(wire::LifelineMessage). Fails on what is not a whole message of
// this version and of the job `key`, and on a rank that is not below `world_size`.
Result<wire::LifelineMessage> read_message(ByteView bytes, const JobKey& key, uint32_t world_size);

RankName name_in(const wire::LifelineMessage& message);

// How the others find rank 0: its hello with the key in it, its port, its addresses. Brought to
// them by MPI.
struct Invitation {
  RankName hub;
  JobKey key = {};
  uint16_t port = 0;
  std::vector<std::string> addresses;  // the last one is good on the hub's own host alone

  std::string text() const;
};

Result<Invitation> read_invitation(std::string_view text, uint32_t world_size);

}  // namespace millrace::comm
