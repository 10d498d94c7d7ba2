// Partial shuffling: local, and after every epoch each shard sends a fraction of its samples to
// others, as PartialMoves defines.
#include <memory>
#include <vector>

#include "loader/order/kinds.h"
#include "loader/order/partial_moves.h"
#include "loader/order/shard_orders.h"

namespace millrace::loader::order {
namespace {

class PartialOrder : public Order {
 public:
  explicit PartialOrder(const Options& options)
      : options_(options), moves_(options), orders_(moves_.shards(), options.seed) {}

  const Options& options() const override { return options_; }

  data::SampleId at(data::Epoch epoch, uint64_t position) const override {
    return moves_.sample_in(epoch, orders_.slot_at(epoch, position));
  }

  uint64_t position_of(data::Epoch epoch, data::SampleId sample) const override {
    return orders_.position_of(epoch, moves_.slot_of(epoch, sample));
  }

  void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    std::vector<Slot> slots(out.size());
    orders_.each_slot(epoch, first, stride, out.size(),
                      [&](uint64_t i, const Slot& slot) { slots[i] = slot; });
    moves_.go_home(epoch, slots);
    for (size_t i = 0; i < out.size(); ++i) out[i] = moves_.shards().at_home(slots[i]);
  }

 private:
  Options options_;
  PartialMoves moves_;
  ShardOrders orders_;
};

}  // namespace

std::unique_ptr<Order> make_partial_order(const Options& options) {
  return std::make_unique<PartialOrder>(options);
}

}  // namespace millrace::loader::order
