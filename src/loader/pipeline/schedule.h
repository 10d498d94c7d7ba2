// BatchSchedule: the batches of a rank in order, from any point of any epoch onwards.
//
// After an epoch, the batches of the next one follow, so that they can be prefetched while the last
// ones are used, unless Start says otherwise. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "data/sample.h"
#include "loader/order/order.h"
#include "loader/order/share.h"

namespace millrace::loader::pipeline {

// Which batch, and what its rows are. Valid even after the schedule is gone.
struct ScheduledBatch {
  data::Epoch epoch{};
  uint64_t index = 0;       // within this rank's epoch
  bool is_first = false;    // of an epoch that starts at its beginning
  uint64_t pass = 0;        // number of epochs in the schedule before this one
  uint64_t done_after = 0;  // positions consumed when all ranks have taken this batch
  order::BatchPlan plan;
  uint32_t world_size = 1;
  std::shared_ptr<const order::Order> order;  // shared with the loader
  std::shared_ptr<const order::Share> share;  // of its epoch; shared by all batches of the epoch

  // The seed for decoding a row. Orders that draw a sample several times in an epoch have another
  // one for each position, so that it is not augmented in the same way each time.
  uint64_t decoding_seed(uint64_t seed, uint64_t row) const;

  // REQUIRES: each span has one element per row of the batch.
  void fill(std::span<data::SampleId> samples, std::span<uint8_t> is_real) const;
};

class BatchSchedule {
 public:
  struct Start {
    data::Epoch epoch{};
    uint64_t done = 0;        // positions that all ranks together have consumed
    uint64_t epoch_step = 1;  // from one epoch to the next
    bool goes_on = true;      // false: end after this epoch
    // Epochs of the whole run, if known: the schedule ends before this epoch.
    uint64_t epoch_count = ~uint64_t{0};
  };

  // Ignores `share.done`. REQUIRES: what Share requires; start.done <= share.sample_count
  BatchSchedule(std::shared_ptr<const order::Order> order, const order::ShareOptions& share,
                const Start& start);

  // Nullopt: no epoch has a batch, or the schedule has ended.
  std::optional<ScheduledBatch> next();

  // Whether next() returns the first batch of `epoch`.
  bool is_at_start_of(data::Epoch epoch) const;

  // ScheduledBatch::pass of the batch that next() returns.
  uint64_t next_pass() const { return is_at_end() ? pass_ + 1 : pass_; }

 private:
  bool is_at_end() const { return next_ == share_->batch_count(); }  // of its epoch
  data::Epoch epoch_after() const { return data::Epoch{data::number_of(epoch_) + epoch_step_}; }
  bool goes_on() const {
    return goes_on_ && data::number_of(epoch_after()) < epoch_count_ &&
           order_->knows(epoch_after());
  }
  void begin_epoch(uint64_t done);

  std::shared_ptr<const order::Order> order_;  // shared with the loader
  order::ShareOptions share_options_;
  uint64_t epoch_step_ = 1;
  bool goes_on_ = true;
  uint64_t epoch_count_ = ~uint64_t{0};
  data::Epoch epoch_{};
  uint64_t done_ = 0;
  std::shared_ptr<const order::Share> share_;
  uint64_t next_ = 0;  // of share_'s batches
  uint64_t pass_ = 0;
};

// The number of batches that are completely before `done`. Batch indexes continue from there.
uint64_t batches_before(const order::ShareOptions& share, uint64_t done);

}  // namespace millrace::loader::pipeline
