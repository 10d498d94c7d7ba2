// DrawnOrder: what the orders share that are not permutations: where samples occur in an epoch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>

#include "loader/order/kept_epochs.h"
#include "loader/order/occurrences.h"
#include "loader/order/order.h"

namespace millrace::loader::order {

class DrawnOrder : public Order {
 public:
  explicit DrawnOrder(const Options& options)
      : options_(options), occurrences_(table_count(options)) {}

  const Options& options() const final { return options_; }

  uint64_t position_of(data::Epoch epoch, data::SampleId sample) const final {
    return first_at(epoch, sample, 0).value_or(size());
  }
  std::optional<uint64_t> first_at(data::Epoch epoch, data::SampleId sample,
                                   uint64_t begin) const final {
    return knows(epoch) ? occurrences(epoch)->first_at(sample, begin) : std::nullopt;
  }
  std::optional<uint64_t> last_before(data::Epoch epoch, data::SampleId sample,
                                      uint64_t end) const final {
    return knows(epoch) ? occurrences(epoch)->last_before(sample, end) : std::nullopt;
  }

  // Placement looks at the epochs of a block and as many after it.
  uint32_t horizon_max() const override {
    return static_cast<uint32_t>(table_count(options_) - 2) / 2;
  }

 private:
  static constexpr uint64_t kTableBytesMax = uint64_t{1} << 28;  // of all tables
  static constexpr uint64_t kTableCountMin = 4;
  static constexpr uint64_t kTableCountMax = 18;

  static size_t table_count(const Options& options) {
    const uint64_t table_bytes = 4 * (options.position_count + options.sample_count + 1);
    return std::clamp(kTableBytesMax / table_bytes, kTableCountMin, kTableCountMax);
  }

  std::shared_ptr<const Occurrences> occurrences(data::Epoch epoch) const {
    return occurrences_.find(epoch, [&] { return Occurrences(*this, epoch); });
  }

  Options options_;
  KeptEpochs<Occurrences> occurrences_;
};

}  // namespace millrace::loader::order
