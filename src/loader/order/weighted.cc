// Weighted sampling: each position draws a sample, with the probability of its weight.
//
// With replacement, a position is drawn by two random numbers of (seed, epoch, position) alone. A
// draw without replacement depends on all draws before it. But the order is the same as that of
// random keys, exponential with the weight as rate (Efraimidis and Spirakis, 2006): they are sorted
// once per epoch, and the list is kept while the epoch is in use.
#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "data/fingerprint.h"
#include "loader/order/alias_table.h"
#include "loader/order/drawing.h"
#include "loader/order/drawn_order.h"
#include "loader/order/kinds.h"
#include "loader/order/order_key.h"

namespace millrace::loader::order {
namespace {

std::vector<uint64_t> bits_of(const std::vector<double>& weights) {
  std::vector<uint64_t> bits;
  bits.reserve(weights.size());
  for (const double weight : weights) bits.push_back(std::bit_cast<uint64_t>(weight));
  return bits;
}

class WeightedOrder : public DrawnOrder {
 public:
  explicit WeightedOrder(const Options& options)
      : DrawnOrder(options),
        fingerprint_(data::fingerprint(bits_of(options.drawing->weights),
                                       options.drawing->replaces ? 1 : 0)) {}

  std::optional<uint32_t> drawn_from(data::Epoch) const final { return fingerprint_; }

 protected:
  // Two uniform numbers of an epoch.
  PermutationKey drawn(data::Epoch epoch, uint64_t which) const {
    return order_key(
        {.seed = options().seed, .epoch = epoch, .purpose = Purpose::kWeighted, .which = which});
  }
  const std::vector<double>& weights() const { return options().drawing->weights; }

 private:
  uint32_t fingerprint_;
};

class ReplacingOrder final : public WeightedOrder {
 public:
  explicit ReplacingOrder(const Options& options) : WeightedOrder(options) {
    if (!weights().empty()) table_ = AliasTable(whole_weights(weights()));
  }

  data::SampleId at(data::Epoch epoch, uint64_t position) const override {
    const PermutationKey key = drawn(epoch, position);
    return data::SampleId{weights().empty()
                              ? PermutationNetwork::high_product(key.low, sample_count())
                              : table_.draw(key.low, key.high)};
  }

  void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    if (weights().empty()) return Order::fill(epoch, first, stride, out);
    std::array<PermutationKey, 64> keys;
    while (!out.empty()) {
      const size_t count = std::min(out.size(), keys.size());
      for (size_t i = 0; i < count; ++i, first += stride) {
        keys[i] = drawn(epoch, first);
        table_.prefetch(keys[i].low);
      }
      for (size_t i = 0; i < count; ++i) {
        out[i] = data::SampleId{table_.draw(keys[i].low, keys[i].high)};
      }
      out = out.subspan(count);
    }
  }

 private:
  AliasTable table_;  // empty if all weights are equal
};

// -log2 of a uniform number u / 2^64, in units of 2^-kLogBits. In whole numbers, because the last
// bits of std::log2 differ between libraries. Squaring a mantissa doubles its logarithm, whose
// whole part is the next bit.
uint64_t exponential(uint64_t u) {
  constexpr int kLogBits = 48;
  u |= 1;
  const int zeros = std::countl_zero(u);
  uint64_t mantissa = u << zeros;  // of [1, 2), in units of 2^-63
  uint64_t log = 0;
  for (int bit = 0; bit < kLogBits; ++bit) {
    const uint64_t square = PermutationNetwork::high_product(mantissa, mantissa);  // unit 2^-62
    const uint64_t is_two = square >> 63;
    mantissa = square << (1 - is_two);
    log = log << 1 | is_two;
  }
  return (static_cast<uint64_t>(zeros + 1) << kLogBits) - log;
}

class OnceOrder final : public WeightedOrder {
 public:
  explicit OnceOrder(const Options& options) : WeightedOrder(options), lists_(kListCount) {}

  data::SampleId at(data::Epoch epoch, uint64_t position) const override {
    return (*list_of(epoch))[position];
  }

  void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    if (out.empty()) return;
    const auto list = list_of(epoch);
    for (data::SampleId& sample : out) {
      sample = (*list)[first];
      first += stride;
    }
  }

 private:
  using List = std::vector<data::SampleId>;
  // Of the two epochs in use, and of those that tiers look at.
  static constexpr size_t kListCount = 4;

  std::shared_ptr<const List> list_of(data::Epoch epoch) const {
    return lists_.find(epoch, [&] { return make_list(epoch); });
  }

  List make_list(data::Epoch epoch) const {
    std::vector<std::pair<double, uint64_t>> keys;
    keys.reserve(sample_count());
    for (uint64_t i = 0; i < sample_count(); ++i) {
      const double weight = weights().empty() ? 1 : weights()[i];
      if (!(weight > 0)) continue;
      const uint64_t number = exponential(drawn(epoch, i).low);
      keys.emplace_back(static_cast<double>(number) / weight, i);
    }
    const auto end = keys.begin() + static_cast<ptrdiff_t>(size());
    std::nth_element(keys.begin(), end, keys.end());
    std::sort(keys.begin(), end);
    List list;
    list.reserve(size());
    for (auto key = keys.begin(); key != end; ++key) list.push_back(data::SampleId{key->second});
    return list;
  }

  KeptEpochs<List> lists_;
};

}  // namespace

std::unique_ptr<Order> make_weighted_order(const Options& options) {
  if (options.drawing->replaces) return std::make_unique<ReplacingOrder>(options);
  return std::make_unique<OnceOrder>(options);
}

}  // namespace millrace::loader::order
