// PartialMemory: what the slots of one shard held when they were last asked about.
//
// From one epoch to the next most slots keep their sample. The walk back of a slot (partial.h) may
// end at the epoch in which it was last asked about, so that it is short for most. 8 bytes a slot
// of the shard, and only of shards that are not huge; filled as slots are asked about, so that no
// epoch begins with a pause. Of one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/partial.h"

namespace millrace::loader {

class PartialMemory {
 public:
  static constexpr uint64_t kSlotCountMax = uint64_t{1} << 20;
  static constexpr uint64_t kSampleCountMax = uint64_t{1} << 40;

  // REQUIRES: the shard has at most kSlotCountMax slots; at most kSampleCountMax samples. `moves`
  // outlives this.
  PartialMemory(const PartialMoves& moves, uint32_t shard);

  uint32_t shard() const { return shard_; }

  // The same as PartialMoves::sample_in of a slot of this shard.
  data::SampleId sample_in(data::Epoch epoch, uint64_t slot);

 private:
  // What a slot holds in an epoch, in a word: a million slots that are asked about in any order
  // are to fit into a processor's cache as far as they can.
  class Known {
   public:
    Known(data::Epoch epoch, data::SampleId sample)
        : word_(data::number_of(epoch) << 40 | data::index_of(sample)) {}
    data::Epoch epoch() const { return data::Epoch{word_ >> 40}; }
    data::SampleId sample() const { return data::SampleId{word_ & (kSampleCountMax - 1)}; }

   private:
    uint64_t word_;
  };

  data::SampleId walked_back(data::Epoch epoch, uint64_t slot);
  const KeyedPermutation& slots_of(uint64_t cycle);

  const PartialMoves* moves_;
  uint32_t shard_;
  std::vector<Known> known_;  // by slot
  uint64_t cycle_ = 0;
  KeyedPermutation slots_;  // of cycle_, kept: all slots that are asked about in an epoch need it
};

}  // namespace millrace::loader
