// PartialMemory: what the slots of one shard held when they were last asked about.
//
// From one epoch to the next most slots keep their sample. A walk back (partial.h) that passes a
// slot of this shard may end where the slot's sample is known, and so takes one step for most slots
// and not as many as there were epochs. 16 bytes a slot of the shard; filled as slots are asked
// about, so that no epoch begins with a pause. Of one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/partial.h"

namespace millrace::loader {

class PartialMemory {
 public:
  // `moves` outlives this.
  PartialMemory(const PartialMoves& moves, uint32_t shard);

  uint32_t shard() const { return shard_; }

  // The same as PartialMoves::sample_in of a slot of this shard.
  data::SampleId sample_in(data::Epoch epoch, uint64_t slot);

 private:
  struct Known {
    uint64_t epoch = 0;
    data::SampleId sample{};
  };

  data::SampleId walked_back(uint64_t epoch, uint64_t slot);
  Slot first_step(uint64_t epoch, uint64_t slot);

  const PartialMoves* moves_;
  uint32_t shard_;
  std::vector<Known> known_;  // by slot
  // Kept, because all slots that are asked about in an epoch take this step.
  uint64_t first_step_epoch_ = 0;
  KeyedPermutation first_step_slots_;
};

}  // namespace millrace::loader
