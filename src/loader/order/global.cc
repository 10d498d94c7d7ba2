// Global shuffling: one keyed permutation of all samples per epoch.
#include "base/numbers/permutation.h"
#include "loader/order/kept_permutations.h"
#include "loader/order/kinds.h"
#include "loader/order/order_key.h"

namespace millrace::loader::order {
namespace {

class GlobalOrder : public Order {
 public:
  explicit GlobalOrder(const Options& options)
      : options_(options), samples_(options.sample_count, {}) {}

  const Options& options() const override { return options_; }

  data::SampleId at(data::Epoch epoch, uint64_t position) const override {
    return data::SampleId{permutation(epoch).at(position)};
  }

  uint64_t position_of(data::Epoch epoch, data::SampleId sample) const override {
    return permutation(epoch).inverse(data::index_of(sample));
  }

  void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    permutation(epoch).fill(first, stride, out);
  }

 private:
  KeyedPermutation permutation(data::Epoch epoch) const {
    return kept_.find(samples_, data::number_of(epoch), 0, [&] {
      return samples_.with_key(
          order_key({.seed = options_.seed, .epoch = epoch, .purpose = Purpose::kGlobal}));
    });
  }

  Options options_;
  KeyedPermutation samples_;  // without a key yet
  KeptPermutations kept_{1};
};

}  // namespace

std::unique_ptr<Order> make_global_order(const Options& options) {
  return std::make_unique<GlobalOrder>(options);
}

}  // namespace millrace::loader::order
