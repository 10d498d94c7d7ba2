// Mixtures: a fixed number of positions of each epoch is from each part of the dataset.
//
// An epoch has a slot per position; the first slots are of the first part, and so on. A keyed
// permutation says which slot a position is. The draws of a part are numbered through all epochs.
// A part has a keyed permutation for each round, a run of as many draws as it has samples, so no
// sample of a part comes twice before all were drawn, even if an epoch draws only a few.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/numbers/divisor.h"
#include "base/numbers/permutation.h"
#include "data/fingerprint.h"
#include "loader/order/drawing.h"
#include "loader/order/drawn_order.h"
#include "loader/order/kept_permutations.h"
#include "loader/order/kinds.h"
#include "loader/order/order_key.h"

namespace millrace::loader::order {
namespace {

uint32_t fingerprint_of(const Options& options, const std::vector<uint64_t>& counts) {
  const Mixture& mixture = options.drawing->mixture;
  return data::fingerprint(mixture.members,
                           data::fingerprint(mixture.part_begins, data::fingerprint(counts)));
}

class MixtureOrder final : public DrawnOrder {
 public:
  MixtureOrder(const Options& options, const std::vector<uint64_t>& counts)
      : DrawnOrder(options),
        fingerprint_(fingerprint_of(options, counts)),
        slots_(options.position_count, {}),
        kept_rounds_(counts.size(), kKeptRoundCountMax) {
    const std::vector<uint64_t>& begins = options.drawing->mixture.part_begins;
    slot_begins_.resize(counts.size() + 1);
    std::partial_sum(counts.begin(), counts.end(), slot_begins_.begin() + 1);
    for (size_t part = 0; part < counts.size(); ++part) {
      const uint64_t size = begins[part + 1] - begins[part];
      parts_.push_back({.samples = {size, {}}, .size = Divisor(std::max<uint64_t>(size, 1))});
    }
  }

  std::optional<uint32_t> drawn_from(data::Epoch) const override { return fingerprint_; }

  data::SampleId at(data::Epoch epoch, uint64_t position) const override {
    return in_slot(epoch, slots_in(epoch).at(position));
  }

  void fill(data::Epoch epoch, uint64_t first, uint64_t stride,
            std::span<data::SampleId> out) const override {
    slots_in(epoch).fill(first, stride, out);
    for (data::SampleId& sample : out) sample = in_slot(epoch, data::index_of(sample));
  }

 private:
  // Half a megabyte: a thousand classes with four rounds each.
  static constexpr uint64_t kKeptRoundCountMax = 4096;

  struct Part {
    KeyedPermutation samples;  // without a key yet
    Divisor size;
  };

  struct Draw {
    uint64_t round = 0;
    uint64_t in_round = 0;
  };

  const Mixture& mixture() const { return options().drawing->mixture; }

  KeyedPermutation slots_in(data::Epoch epoch) const {
    return kept_slots_.find(slots_, data::number_of(epoch), 0, [&] {
      return slots_.with_key(
          order_key({.seed = options().seed, .epoch = epoch, .purpose = Purpose::kMixtureSlots}));
    });
  }

  // Draw number epoch * per_epoch + index of a part.
  static Draw draw_of(uint64_t epoch, uint64_t per_epoch, uint64_t index, const Divisor& size) {
    uint64_t number = 0;
    if (!__builtin_mul_overflow(epoch, per_epoch, &number) &&
        !__builtin_add_overflow(number, index, &number)) {
      const Divisor::Parts parts = size.divide(number);
      return {parts.quotient, parts.rest};
    }
    __extension__ using uint128 = unsigned __int128;
    const uint128 large = static_cast<uint128>(epoch) * per_epoch + index;
    return {static_cast<uint64_t>(large / size.value()),
            static_cast<uint64_t>(large % size.value())};
  }

  data::SampleId in_slot(data::Epoch epoch, uint64_t slot) const {
    const auto after = std::ranges::upper_bound(slot_begins_, slot);
    const auto number = static_cast<size_t>(after - slot_begins_.begin()) - 1;
    const Part& part = parts_[number];
    const uint64_t begin = slot_begins_[number];
    const Draw draw =
        draw_of(data::number_of(epoch), slot_begins_[number + 1] - begin, slot - begin, part.size);
    const KeyedPermutation of_round = kept_rounds_.find(part.samples, draw.round, number, [&] {
      return part.samples.with_key(order_key({.seed = options().seed,
                                              .epoch = data::Epoch{draw.round},
                                              .purpose = Purpose::kMixturePart,
                                              .which = number}));
    });
    const uint64_t member = mixture().part_begins[number] + of_round.at(draw.in_round);
    return data::SampleId{mixture().members.empty() ? member : mixture().members[member]};
  }

  uint32_t fingerprint_;
  KeyedPermutation slots_;  // without a key yet
  KeptPermutations kept_slots_{1};
  std::vector<uint64_t> slot_begins_;  // of each part, and the end
  std::vector<Part> parts_;
  KeptPermutations kept_rounds_;  // by round, not by epoch
};

}  // namespace

std::unique_ptr<Order> make_mixture_order(const Options& options) {
  return std::make_unique<MixtureOrder>(
      options, apportioned(options.drawing->mixture.proportions, options.position_count));
}

}  // namespace millrace::loader::order
