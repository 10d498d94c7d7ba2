// Peer: asks other ranks for samples that they hold, and answers their requests. Thread-safe.
//
// An answer that is not the complete sample with a correct checksum counts as "not here". So does a
// rank that has ended normally, because one rank may finish its last epoch before another. If a
// rank has died, Messages returns an error that names it.
//
// A rank that does not answer within the patience (it is stopped, swaps, or its disk hangs) is
// silent: it is not asked again until its late answer has come.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/base.h"
#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "comm/messages.h"
#include "data/sample.h"

namespace millrace::loader::tiers {

// The bytes of a sample, in the message that contained them.
struct PeerSample {
  std::string message;
  ByteView bytes() const;
};

class Peer {
 public:
  // Appends the bytes of a sample to a message; false if it is not held. Called on a thread of
  // Messages, as long as `messages` lives.
  using Lookup = std::function<bool(data::SampleId sample, std::string& message)>;

  // REQUIRES: `messages` outlives this.
  Peer(comm::Messages& messages, comm::MessageTag tag, Lookup lookup,
       std::chrono::nanoseconds patience = std::chrono::seconds(2));

  // Nullopt if the rank does not hold the sample, or is silent.
  Result<std::optional<PeerSample>> ask(uint32_t rank, data::SampleId sample);

 private:
  bool is_silent(uint32_t rank);

  comm::Messages& messages_;
  comm::MessageTag tag_;
  const std::chrono::nanoseconds patience_;
  Mutex mutex_;
  // By rank: answers that have not come in time.
  std::vector<std::vector<comm::Ticket>> late_ GUARDED_BY(mutex_);
};

}  // namespace millrace::loader::tiers
