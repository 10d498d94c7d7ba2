// Occurrences: at which positions of an epoch each sample is, for orders without an inverse.
//
// Four bytes per position and per sample, made by going through the epoch once. Immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/sample.h"
#include "loader/order/order.h"

namespace millrace::loader::order {

class Occurrences {
 public:
  static constexpr uint64_t kCountMax = UINT32_MAX;  // of positions, and of samples
  static uint64_t size_bytes(const Order& order) {
    return 4 * (order.size() + order.sample_count() + 1);
  }

  Occurrences() = default;  // nothing occurs
  // REQUIRES: the order has at most kCountMax positions and samples
  Occurrences(const Order& order, data::Epoch epoch);

  // The first position of the sample at or after `begin`, and the last one before `end`.
  std::optional<uint64_t> first_at(data::SampleId sample, uint64_t begin) const;
  std::optional<uint64_t> last_before(data::SampleId sample, uint64_t end) const;

 private:
  std::vector<uint32_t> begins_;     // by sample, into positions_; and the end
  std::vector<uint32_t> positions_;  // of the first sample, ascending; of the second; ...
};

}  // namespace millrace::loader::order
