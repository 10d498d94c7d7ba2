// Lifeline messages: made with their checksum, and checked before anything in them is believed.
#pragma once

#include <array>
#include <string>

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

}  // namespace millrace::comm
