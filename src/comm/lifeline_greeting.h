// How the lifeline's connections begin: both ends prove that they know the job's key, and neither
// sends it.
//
//   rank 0: kChallenge with a nonce  ->  kJoin with a nonce, signed  ->  kWelcome, signed
//
// Whoever is not a rank of this job is dropped: a scan of the ports must not end a job. Nobody
// waits for anybody else: rank 0 greets all who come at once, and the others try all its addresses
// at once. docs/formats/lifeline.md.
#pragma once

#include <chrono>
#include <vector>

#include "base/result.h"
#include "comm/lifeline_message.h"
#include "comm/lifeline_socket.h"

namespace millrace::comm {

// A connection whose other end is a rank of this job.
struct GreetedRank {
  OwnFile socket;
  RankName name;
  LifelineChannel channel;
};

struct GreetingOptions {
  RankName own;
  JobKey key = {};
  uint32_t world_size = 1;
  // How long rank 0 keeps somebody who says nothing. A rank that was dropped comes again.
  std::chrono::milliseconds patience{10'000};
};

// On rank 0: all other ranks, when they have come. Fails at the deadline and names one that is
// missing.
Result<std::vector<GreetedRank>> admit_ranks(const Listener& listener,
                                             const GreetingOptions& options, Deadline deadline);

// On another rank: rank 0, by the address that answers first. Fails when none is left, or at the
// deadline, and says what became of each.
Result<GreetedRank> reach_hub(const Invitation& invitation, const GreetingOptions& options,
                              Deadline deadline);

}  // namespace millrace::comm
