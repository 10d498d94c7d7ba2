// class_skew: how much the classes of a shard differ from those of the whole dataset.
//
// This matters because batch normalisation without synchronisation takes its statistics from the
// batches of one rank. If these have only a few classes, the network adapts to their statistics and
// loses accuracy: with class-sorted shards on 16 ranks, Fashion-MNIST reached 30 % with local
// shuffling and 89 % with all samples exchanged (docs/design/shuffling.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace millrace::loader::exchange {

using ClassCounts = std::map<int64_t, uint64_t>;  // label -> samples

struct ClassSkew {
  // The total variation distance between the classes of the shard and of the whole: 0 for equal
  // shares, near 1 for a shard of one class among many.
  double distance = 0;
  // The mean distance of a shard whose samples are drawn at random.
  double expected = 0;

  // Clearly more than chance, and enough to matter.
  bool is_skewed() const { return distance > 0.1 && distance > 2 * expected; }
};

// REQUIRES: the shard's samples are among the whole's. A shard without samples is not skewed.
ClassSkew class_skew(const ClassCounts& shard, const ClassCounts& whole);

struct SkewedJob {
  double fraction = 0;  // of samples that are exchanged every epoch; 0: local shuffling
  uint32_t rank = 0;
};

// A warning for the user; nullopt if there is no skew.
std::optional<std::string> class_skew_warning(const ClassSkew& skew, const SkewedJob& job);

}  // namespace millrace::loader::exchange
