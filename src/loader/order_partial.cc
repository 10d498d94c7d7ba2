// Partial local shuffling: local, and after every epoch each shard gives a fraction of its samples
// to others, as PartialMoves says.
//
// Pure, by walking back; the shard that is asked about in batches (that of the rank) is remembered,
// so that the walks stay short. Another shard's batches take its place.
#include <memory>
#include <mutex>
#include <numeric>

#include "loader/order_kinds.h"
#include "loader/order_turns.h"
#include "loader/partial.h"
#include "loader/partial_memory.h"

namespace millrace::loader {
namespace {

class PartialOrder : public Order {
 public:
  explicit PartialOrder(const OrderOptions& options)
      : options_(options), moves_(options), orders_(moves_.shards(), options.seed) {}

  const OrderOptions& options() const override { return options_; }

  data::SampleId at(data::Epoch epoch, uint64_t position) const override {
    return moves_.sample_in(epoch, orders_.slot_at(epoch, position));
  }

  uint64_t position_of(data::Epoch epoch, data::SampleId sample) const override {
    return orders_.position_of(epoch, moves_.slot_of(epoch, sample));
  }

  void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    const auto shard = static_cast<uint32_t>(first % options_.shard_count);
    if (stride % options_.shard_count != 0 || out.size() < 2 || !is_remembered(shard)) {
      orders_.each_slot(epoch, first, stride, out.size(),
                        [&](uint64_t i, Slot slot) { out[i] = moves_.sample_in(epoch, slot); });
      return;
    }
    const std::lock_guard lock(mutex_);
    if (!memory_ || memory_->shard() != shard) {
      memory_ = std::make_unique<PartialMemory>(moves_, shard);
    }
    orders_.each_slot(epoch, first, stride, out.size(), [&](uint64_t i, Slot slot) {
      out[i] = memory_->sample_in(epoch, slot.index);
    });
  }

 private:
  bool is_remembered(uint32_t shard) const {
    return moves_.shards().size_of(shard) <= PartialMemory::kSlotCountMax &&
           options_.sample_count <= PartialMemory::kSampleCountMax;
  }

  OrderOptions options_;
  PartialMoves moves_;
  ShardOrders orders_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<PartialMemory> memory_;  // of the shard whose batches were asked for last
};

}  // namespace

std::unique_ptr<Order> make_partial_order(const OrderOptions& options) {
  return std::make_unique<PartialOrder>(options);
}

}  // namespace millrace::loader
