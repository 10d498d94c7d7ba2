// Share: the positions of an epoch that one rank visits, batch by batch, starting anywhere.
//
// Ranks take turns: after the first `done` positions of the epoch, rank r takes every size-th
// position, starting with the r-th. A step of all ranks therefore consumes the next
// batch_size * size positions of the order, and `done` alone is the progress of a job, for any
// number of ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace millrace::loader::order {

struct World {
  uint32_t rank = 0;
  uint32_t size = 1;
};

// What to do if the samples do not fill the last step.
enum class Tail : uint8_t {
  kDrop,    // leave out the samples that do not fill a batch of every rank in this epoch; if that
            // is all samples, the epoch has no batch
  kPad,     // fill batches with samples from the start of the epoch, marked as not real, and repeat
            // them if there are too few; only an epoch without samples has no batch
  kUneven,  // some ranks may have one sample, and so one batch, more; no batch is padded
};

Result<Tail> tail_from(std::string_view name);  // "drop", "pad", "uneven"
std::string_view tail_name(Tail tail);

struct ShareOptions {
  uint64_t sample_count = 0;
  uint64_t done = 0;  // positions of the epoch that all ranks together have consumed
  World world;
  uint64_t batch_size = 1;  // of one rank
  Tail tail = Tail::kUneven;
};

struct BatchPlan {
  uint64_t first_position = 0;  // of this rank's first row; the following are world.size apart
  uint64_t row_count = 0;       // 0: past the end
  uint64_t real_count = 0;      // the rows after these are padding; may be 0 on the last ranks
};

class Share {
 public:
  static constexpr uint64_t kBatchSizeMax = uint64_t{1} << 30;

  // REQUIRES: world.rank < world.size, 0 < batch_size <= kBatchSizeMax, done <= sample_count,
  // sample_count <= 2^63
  explicit Share(const ShareOptions& options);

  uint64_t batch_count() const { return batch_count_; }
  BatchPlan batch(uint64_t index) const;
  // The position of a row, including padding rows.
  uint64_t position(const BatchPlan& plan, uint64_t row) const;
  // The same, but padding rows repeat the rank's own positions, from its first one on: with shard
  // storage, the rank has no others. A rank without positions gets those of other ranks.
  uint64_t own_position(const BatchPlan& plan, uint64_t row) const;
  // `done` after all ranks have taken this many batches.
  uint64_t done_after(uint64_t batches) const;

 private:
  uint64_t step() const { return options_.batch_size * options_.world.size; }
  uint64_t rows_left(uint64_t positions) const;

  ShareOptions options_;
  uint64_t batch_count_ = 0;
};

}  // namespace millrace::loader::order
