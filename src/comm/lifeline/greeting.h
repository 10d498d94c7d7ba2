// How lifeline connections begin: both ends prove that they know the job's key without sending it.
//
//   rank 0: kChallenge with a nonce  ->  kJoin with a nonce, signed  ->  kWelcome, signed
//
// Anyone who is not a rank of this job is dropped: a port scan must not end a job. No connection
// delays another: rank 0 greets all in parallel, and the others try all its addresses in parallel.
// docs/formats/lifeline.md.
#pragma once

#include <chrono>
#include <vector>

#include "base/result.h"
#include "comm/lifeline/message.h"
#include "comm/lifeline/socket.h"

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
  // How long rank 0 keeps a connection that sends nothing. A rank that is dropped connects again.
  std::chrono::milliseconds patience{10'000};
};

// On rank 0: waits for all other ranks. Fails at the deadline and names one that is missing.
Result<std::vector<GreetedRank>> admit_ranks(const Listener& listener,
                                             const GreetingOptions& options, Deadline deadline);

// On another rank: connects to rank 0 at the address that answers first. Fails if no address is
// left, or at the deadline, and says why each address failed.
Result<GreetedRank> reach_hub(const Invitation& invitation, const GreetingOptions& options,
                              Deadline deadline);

}  // namespace millrace::comm
