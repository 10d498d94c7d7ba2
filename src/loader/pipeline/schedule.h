// BatchSchedule: the batches of a rank one after another, from any point of any epoch into the
// next.
//
// The end of an epoch is no end: the batches of the next one follow, so that they can be read while
// the last ones of this are used, unless it is told not to go on. Not for several threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "data/sample.h"
#include "loader/order/order.h"
#include "loader/order/share.h"

namespace millrace::loader {

// Which batch, and what its rows are. Good also when the schedule is gone.
struct ScheduledBatch {
  data::Epoch epoch{};
  uint64_t index = 0;       // in the epoch, of this rank
  bool is_first = false;    // of an epoch that is taken from its start
  uint64_t pass = 0;        // epochs that the schedule went through before this one
  uint64_t done_after = 0;  // positions used up when all ranks have taken this one
  BatchPlan plan;
  uint32_t world_size = 1;
  std::shared_ptr<const Order> order;  // shared with the loader
  std::shared_ptr<const Share> share;  // of its epoch; shared by all batches of it

  // REQUIRES: as many of each as the batch has rows.
  void fill(std::span<data::SampleId> samples, std::span<uint8_t> is_real) const;
};

class BatchSchedule {
 public:
  struct Start {
    data::Epoch epoch{};
    uint64_t done = 0;        // positions that all ranks together have used up
    uint64_t epoch_step = 1;  // the epoch after this one is this many further
    bool goes_on = true;      // false: there is none after this one
    // Epochs of the whole run, where known: it does not go on into this one.
    uint64_t epoch_count = ~uint64_t{0};
  };

  // `share.done` is not looked at. REQUIRES: as Share does; start.done <= share.sample_count
  BatchSchedule(std::shared_ptr<const Order> order, const ShareOptions& share, const Start& start);

  // Nothing: no epoch has a batch, or it does not go on.
  std::optional<ScheduledBatch> next();

  // Whether next() returns the first batch of `epoch`.
  bool is_at_start_of(data::Epoch epoch) const;

  // ScheduledBatch::pass of what next() returns.
  uint64_t next_pass() const { return is_at_end() ? pass_ + 1 : pass_; }

 private:
  bool is_at_end() const { return next_ == share_->batch_count(); }  // of its epoch
  data::Epoch epoch_after() const { return data::Epoch{data::number_of(epoch_) + epoch_step_}; }
  bool goes_on() const { return goes_on_ && data::number_of(epoch_after()) < epoch_count_; }
  void begin_epoch(uint64_t done);

  std::shared_ptr<const Order> order_;  // shared with the loader
  ShareOptions share_options_;
  uint64_t epoch_step_ = 1;
  bool goes_on_ = true;
  uint64_t epoch_count_ = ~uint64_t{0};
  data::Epoch epoch_{};
  uint64_t done_ = 0;
  std::shared_ptr<const Share> share_;
  uint64_t next_ = 0;  // of share_'s batches
  uint64_t pass_ = 0;
};

// The batches of an epoch that lie wholly before `done`: what the index of a batch counts from.
uint64_t batches_before(const ShareOptions& share, uint64_t done);

}  // namespace millrace::loader
