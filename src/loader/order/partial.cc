// Partial local shuffling: local, and after every epoch each shard gives a fraction of its samples
// to others, as PartialMoves says.
//
// Pure, by walking back. Of the shard whose batches are asked for, that of the rank, a map says the
// same sooner (partial_map.h).
#include <memory>
#include <vector>

#include "loader/order/kinds.h"
#include "loader/order/partial_map.h"
#include "loader/order/partial_moves.h"
#include "loader/order/turns.h"

namespace millrace::loader {
namespace {

class PartialOrder : public Order {
 public:
  explicit PartialOrder(const OrderOptions& options)
      : options_(options), moves_(options), orders_(moves_.shards(), options.seed), maps_(moves_) {}

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
    const bool is_of_one_shard = stride % options_.shard_count == 0 && out.size() > 1;
    const auto map = is_of_one_shard ? maps_.find_or_make(shard, epoch) : nullptr;
    if (map) {
      // All slots first: the map may be larger than a cache, and loads that are not in between
      // computations overlap.
      orders_.each_slot(epoch, first, stride, out.size(),
                        [&](uint64_t i, const Slot& slot) { out[i] = data::SampleId{slot.index}; });
      for (data::SampleId& slot : out) slot = map->sample_in(data::index_of(slot));
      return;
    }
    std::vector<Slot> slots(out.size());
    orders_.each_slot(epoch, first, stride, out.size(),
                      [&](uint64_t i, const Slot& slot) { slots[i] = slot; });
    moves_.walk_back(epoch, slots);
    for (size_t i = 0; i < out.size(); ++i) out[i] = moves_.shards().at_home(slots[i]);
  }

 private:
  OrderOptions options_;
  PartialMoves moves_;
  ShardOrders orders_;
  mutable PartialMaps maps_;  // of what was computed before; the answers are the same without
};

}  // namespace

std::unique_ptr<Order> make_partial_order(const OrderOptions& options) {
  return std::make_unique<PartialOrder>(options);
}

}  // namespace millrace::loader
