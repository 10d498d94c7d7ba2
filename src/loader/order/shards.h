// Shards: how samples and positions are divided among the ranks that hold them.
//
// Shard r holds a contiguous run of samples in epoch 0, as a dataset that is staged on the disks of
// the ranks file by file does, and the runs differ in length by one at most: the first
// sample_count % count shards have one more. It visits the positions r, r + count, ..., of which it
// has as many as samples, because positions are what ranks take in turns (share.h). A place in a
// shard is a slot; the sample in it changes where shards exchange samples (partial).
#pragma once

#include <cassert>
#include <cstdint>

#include "data/sample.h"

namespace millrace::loader {

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
  uint64_t even_size() const { return even_; }  // the slots that every shard has
  uint64_t size_of(uint32_t shard) const { return even_ + (shard < longer_ ? 1 : 0); }

  // Where a sample lies in epoch 0, and what lies in a slot then.
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
  uint64_t longer_;  // shards that have one more
};

}  // namespace millrace::loader
