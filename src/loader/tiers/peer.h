// PeerTier: asks another rank for a sample that it holds, and answers others.
//
// An answer that is not the sample, whole and with its checksum, is taken for "not here". So is a
// rank that has ended in order: the last epoch of one may end before another's. One that has died
// is an error of Messages, which names it. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/base.h"
#include "base/result.h"
#include "comm/messages.h"
#include "data/sample.h"

namespace millrace::loader {

// Bytes of a sample in the message that brought them.
struct PeerSample {
  std::string message;
  ByteView bytes() const;
};

class PeerTier {
 public:
  // Adds the bytes of a sample to the end of a message; false where it is not held. Called by a
  // thread of Messages, as long as `messages` lives.
  using Lookup = std::function<bool(data::SampleId sample, std::string& message)>;

  // REQUIRES: `messages` lives longer.
  PeerTier(comm::Messages& messages, comm::MessageTag tag, Lookup lookup);

  // Nothing where it does not hold it.
  Result<std::optional<PeerSample>> ask(uint32_t rank, data::SampleId sample);

 private:
  comm::Messages& messages_;
  comm::MessageTag tag_;
};

}  // namespace millrace::loader
