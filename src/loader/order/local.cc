// Local shuffling: each shard keeps its samples of epoch 0 and visits them in another order every
// epoch.
#include "loader/order/kinds.h"
#include "loader/order/shard_orders.h"

namespace millrace::loader::order {
namespace {

class LocalOrder : public Order {
 public:
  explicit LocalOrder(const Options& options)
      : options_(options),
        shards_(options.sample_count, options.shard_count),
        orders_(shards_, options.seed) {}

  const Options& options() const override { return options_; }

  data::SampleId at(data::Epoch epoch, uint64_t position) const override {
    return shards_.at_home(orders_.slot_at(epoch, position));
  }

  uint64_t position_of(data::Epoch epoch, data::SampleId sample) const override {
    return orders_.position_of(epoch, shards_.home_of(sample));
  }

  void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    orders_.each_slot(epoch, first, stride, out.size(),
                      [&](uint64_t i, Slot slot) { out[i] = shards_.at_home(slot); });
  }

 private:
  Options options_;
  Shards shards_;
  ShardOrders orders_;
};

}  // namespace

std::unique_ptr<Order> make_local_order(const Options& options) {
  return std::make_unique<LocalOrder>(options);
}

}  // namespace millrace::loader::order
