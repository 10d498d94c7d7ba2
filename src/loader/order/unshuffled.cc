// No shuffling: sample i is at position i in every epoch.
#include "loader/order/kinds.h"

namespace millrace::loader::order {
namespace {

class OffOrder : public Order {
 public:
  explicit OffOrder(const Options& options) : options_(options) {}

  const Options& options() const override { return options_; }

  data::SampleId at(data::Epoch, uint64_t position) const override {
    return data::SampleId{position};
  }

  uint64_t position_of(data::Epoch, data::SampleId sample) const override {
    return data::index_of(sample);
  }

  void fill(data::Epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    for (data::SampleId& sample : out) {
      sample = data::SampleId{first};
      first += stride;
    }
  }

 private:
  Options options_;
};

}  // namespace

std::unique_ptr<Order> make_off_order(const Options& options) {
  return std::make_unique<OffOrder>(options);
}

}  // namespace millrace::loader::order
