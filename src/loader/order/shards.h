// Shards: how samples and positions are divided among ranks.
//
// Shard r holds a contiguous run of samples in epoch 0, like a dataset that is copied file by file
// to the disks of the ranks. The runs differ in length by at most one: the first
// sample_count % count shards have one more. Shard r visits the positions r, r + count, ..., which
// are as many as its samples, because ranks take positions in turns (share.h). A place in a shard
// is a slot. The sample in a slot changes if shards exchange samples (partial).
#pragma once

#include <cassert>
#include <cstdint>

#include "data/sample.h"

namespace millrace::loader::order {

struct Slot {
  uint32_t shard = 0;
  uint64_t index = 0;  // below Shards::size_of(shard)

  bool operator==(const Slot&) const = default;
};

class Shards {
 public:
  // REQUIRES: count > 0
  Shards(uint64_t sample_count, uint32_t count)
      : count_(count), even_(sample_count / count), longer_(sample_count % count) {}

  uint32_t count() const { return count_; }
  uint64_t sample_count() const { return count_ * even_ + longer_; }
  uint64_t even_size() const { return even_; }  // the number of slots that every shard has
  uint64_t size_of(uint32_t shard) const { return even_ + (shard < longer_ ? 1 : 0); }

  // The slot of a sample in epoch 0, and the sample in a slot in epoch 0.
  Slot home_of(data::SampleId sample) const {
    const uint64_t index = data::index_of(sample);
    const uint64_t in_longer = longer_ * (even_ + 1);
    if (index < in_longer) {
      return {.shard = static_cast<uint32_t>(index / (even_ + 1)), .index = index % (even_ + 1)};
    }
    assert(even_ > 0);
    return {.shard = static_cast<uint32_t>(longer_ + (index - in_longer) / even_),
            .index = (index - in_longer) % even_};
  }
  data::SampleId at_home(Slot slot) const {
    return data::SampleId{first_of(slot.shard) + slot.index};
  }

  // The first sample of a shard in epoch 0.
  uint64_t first_of(uint32_t shard) const {
    return shard * even_ + (shard < longer_ ? shard : longer_);
  }

 private:
  uint32_t count_;
  uint64_t even_;
  uint64_t longer_;  // number of shards that have one more
};

}  // namespace millrace::loader::order
