// class_skew: whether the samples of a shard are of other classes than those of the whole dataset.
//
// Why it matters: batch normalisation without synchronisation takes its statistics from the batches
// of one worker. If these hold few of the classes, the network learns to need them, and is worse on
// everything: with class-sorted shards on 16 workers, Fashion-MNIST came to 30 % by local shuffling
// and to 89 % where all samples were exchanged (docs/design/shuffling.md).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace millrace::loader {

using ClassCounts = std::map<int64_t, uint64_t>;  // label -> samples

struct ClassSkew {
  // The total variation distance between the classes of the shard and of the whole: 0 for equal
  // shares, near 1 for a shard of one class among many.
  double distance = 0;
  // What it would be on average, had the samples of the shard been drawn at random.
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

// What to tell the user; nothing where there is no need.
std::optional<std::string> class_skew_warning(const ClassSkew& skew, const SkewedJob& job);

}  // namespace millrace::loader
