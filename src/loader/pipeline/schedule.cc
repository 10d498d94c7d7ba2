#include "loader/pipeline/schedule.h"

#include <algorithm>
#include <utility>

#include "loader/order/order_key.h"

namespace millrace::loader::pipeline {

uint64_t batches_before(const order::ShareOptions& share, uint64_t done) {
  // Two divisions, because the product may overflow.
  return done / share.world.size / share.batch_size;
}

BatchSchedule::BatchSchedule(std::shared_ptr<const order::Order> order,
                             const order::ShareOptions& share, const Start& start)
    : order_(std::move(order)),
      share_options_(share),
      epoch_step_(start.epoch_step),
      goes_on_(start.goes_on),
      epoch_count_(start.epoch_count),
      epoch_(start.epoch) {
  begin_epoch(start.done);
}

void BatchSchedule::begin_epoch(uint64_t done) {
  share_options_.done = done;
  done_ = done;
  share_ = std::make_shared<const order::Share>(share_options_);
  next_ = 0;
}

bool BatchSchedule::is_at_start_of(data::Epoch epoch) const {
  if (done_ == 0 && next_ == 0) return epoch_ == epoch;
  return goes_on() && is_at_end() && epoch_after() == epoch;
}

std::optional<ScheduledBatch> BatchSchedule::next() {
  if (is_at_end()) {
    if (!goes_on()) return std::nullopt;
    epoch_ = epoch_after();
    ++pass_;
    begin_epoch(0);
    if (share_->batch_count() == 0) return std::nullopt;
  }
  const uint64_t batch = next_++;
  return ScheduledBatch{.epoch = epoch_,
                        .index = batches_before(share_options_, done_) + batch,
                        .is_first = done_ == 0 && batch == 0,
                        .pass = pass_,
                        .done_after = share_->done_after(batch + 1),
                        .plan = share_->batch(batch),
                        .world_size = share_options_.world.size,
                        .order = order_,
                        .share = share_};
}

uint64_t ScheduledBatch::decoding_seed(uint64_t seed, uint64_t row) const {
  if (order->is_permutation()) return seed;
  return order::order_key({.seed = seed,
                           .epoch = epoch,
                           .purpose = order::Purpose::kDecoding,
                           .which = share->position(plan, row)})
      .low;
}

void ScheduledBatch::fill(std::span<data::SampleId> samples, std::span<uint8_t> is_real) const {
  const uint64_t real_count = std::min(plan.real_count, plan.row_count);
  if (real_count > 0) {
    order->fill(epoch, plan.first_position, world_size, samples.first(real_count));
  }
  const order::Shuffle shuffle = order->options().shuffle;
  const bool has_shards = shuffle == order::Shuffle::kLocal || shuffle == order::Shuffle::kPartial;
  for (uint64_t row = real_count; row < plan.row_count; ++row) {
    samples[row] =
        order->at(epoch, has_shards ? share->own_position(plan, row) : share->position(plan, row));
  }
  std::fill_n(is_real.begin(), real_count, uint8_t{1});
  std::fill(is_real.begin() + static_cast<ptrdiff_t>(real_count), is_real.end(), uint8_t{0});
}

}  // namespace millrace::loader::pipeline
