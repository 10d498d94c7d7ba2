#include "loader/order/occurrences.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>

namespace millrace::loader::order {
namespace {

// Calls visit(position, sample) for all positions of an epoch.
template <typename Visit>
void go_through(const Order& order, data::Epoch epoch, Visit visit) {
  std::array<data::SampleId, 1024> some;
  for (uint64_t begin = 0; begin < order.size(); begin += some.size()) {
    const auto count = std::min<uint64_t>(some.size(), order.size() - begin);
    order.fill(epoch, begin, 1, std::span(some).first(count));
    for (uint64_t i = 0; i < count; ++i) visit(begin + i, data::index_of(some[i]));
  }
}

}  // namespace

Occurrences::Occurrences(const Order& order, data::Epoch epoch) {
  assert(order.size() <= kCountMax && order.sample_count() <= kCountMax);
  begins_.resize(order.sample_count() + 1);
  positions_.resize(order.size());
  std::vector<uint32_t> samples(order.size());
  go_through(order, epoch, [&](uint64_t position, uint64_t sample) {
    samples[position] = static_cast<uint32_t>(sample);
    ++begins_[sample];
  });
  uint32_t sum = 0;
  for (uint32_t& begin : begins_) begin = sum += begin;  // now the end of each
  // Backwards, so that the ends become the begins and positions ascend.
  for (uint64_t position = order.size(); position-- > 0;) {
    positions_[--begins_[samples[position]]] = static_cast<uint32_t>(position);
  }
}

std::optional<uint64_t> Occurrences::first_at(data::SampleId sample, uint64_t begin) const {
  if (begins_.empty()) return std::nullopt;
  const auto* const from = positions_.data() + begins_[data::index_of(sample)];
  const auto* const to = positions_.data() + begins_[data::index_of(sample) + 1];
  const auto* const found = std::lower_bound(from, to, begin);
  if (found == to) return std::nullopt;
  return *found;
}

std::optional<uint64_t> Occurrences::last_before(data::SampleId sample, uint64_t end) const {
  if (begins_.empty()) return std::nullopt;
  const auto* const from = positions_.data() + begins_[data::index_of(sample)];
  const auto* const to = positions_.data() + begins_[data::index_of(sample) + 1];
  const auto* const after = std::lower_bound(from, to, end);
  if (after == from) return std::nullopt;
  return *(after - 1);
}

}  // namespace millrace::loader::order
