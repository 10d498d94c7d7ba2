#include "loader/order/drawing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "loader/order/order.h"

namespace millrace::loader::order {
namespace {

Status check_weighted(const Options& options) {
  const Drawing& drawing = *options.drawing;
  uint64_t drawable = options.sample_count;
  if (!drawing.weights.empty()) {
    if (drawing.weights.size() != options.sample_count) {
      return fail(Errc::kInvalidArgument,
                  "there are {} weights for {} samples; give one for each sample",
                  drawing.weights.size(), options.sample_count);
    }
    RETURN_IF_ERROR(check_weights(drawing.weights, "weight"));
    drawable = static_cast<uint64_t>(
        std::ranges::count_if(drawing.weights, [](double weight) { return weight > 0; }));
  }
  if (drawable == 0 && options.position_count > 0) {
    return fail(Errc::kInvalidArgument, "{} samples cannot be drawn from an empty dataset",
                options.position_count);
  }
  if (!drawing.replaces && options.position_count > drawable) {
    return fail(Errc::kInvalidArgument,
                "without replacement, {} samples cannot be drawn from {} with a positive weight; "
                "draw fewer, or with replacement",
                options.position_count, drawable);
  }
  return {};
}

Status check_parts(const Options& options) {
  const Mixture& mixture = options.drawing->mixture;
  const std::vector<uint64_t>& begins = mixture.part_begins;
  const uint64_t end = mixture.members.empty() ? options.sample_count : mixture.members.size();
  if (begins.size() != mixture.part_count() + 1 || begins.front() != 0 || begins.back() != end ||
      !std::ranges::is_sorted(begins)) {
    return fail(Errc::kInvalidArgument,
                "the {} parts of a mixture must begin at 0, one after the other, and end at {}",
                mixture.part_count(), end);
  }
  for (const uint64_t member : mixture.members) {
    if (member >= options.sample_count) {
      return fail(Errc::kInvalidArgument, "a part has sample {}, but there are {} samples", member,
                  options.sample_count);
    }
  }
  return {};
}

Status check_mixture(const Options& options) {
  const Mixture& mixture = options.drawing->mixture;
  RETURN_IF_ERROR(check_weights(mixture.proportions, "proportion"));
  RETURN_IF_ERROR(check_parts(options));
  const auto counts = apportioned(mixture.proportions, options.position_count);
  for (uint64_t part = 0; part < mixture.part_count(); ++part) {
    if (counts[part] > 0 && mixture.part_begins[part] == mixture.part_begins[part + 1]) {
      return fail(Errc::kInvalidArgument,
                  "part {} of the mixture has no samples to draw; leave it out", part);
    }
    // The same part would be without samples in every epoch.
    if (counts[part] == 0 && mixture.proportions[part] > 0 && options.position_count > 0) {
      return fail(Errc::kInvalidArgument,
                  "an epoch of {} samples has none of part {}; draw more samples per epoch, or "
                  "leave the part out",
                  options.position_count, part);
    }
  }
  return {};
}

Status check_listed(const Options& options) {
  const std::shared_ptr<EpochLists>& lists = options.drawing->lists;
  if (lists && lists->sample_count() == options.sample_count &&
      lists->position_count() == options.position_count) {
    return {};
  }
  return fail(Errc::kInvalidArgument,
              "a listed order of {} samples and {} positions needs lists of the same numbers",
              options.sample_count, options.position_count);
}

}  // namespace

Status check_drawing(const Options& options) {
  if (is_permutation(options.shuffle)) return {};
  if (!options.drawing) {
    return fail(Errc::kInvalidArgument,
                "shuffle '{}' needs what to draw from; set Options::drawing",
                shuffle_name(options.shuffle));
  }
  switch (options.shuffle) {
    case Shuffle::kWeighted:
      return check_weighted(options);
    case Shuffle::kMixture:
      return check_mixture(options);
    default:
      return check_listed(options);
  }
}

Status check_weights(std::span<const double> weights, std::string_view what) {
  bool is_any_positive = false;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      return fail(Errc::kInvalidArgument, "{} {} is {}; it must be a number of at least 0", what, i,
                  weights[i]);
    }
    is_any_positive = is_any_positive || weights[i] > 0;
  }
  if (is_any_positive) return {};
  return fail(Errc::kInvalidArgument, "no {} is positive, so nothing can be drawn", what);
}

std::vector<uint64_t> whole_weights(std::span<const double> weights) {
  const double largest = *std::ranges::max_element(weights);
  const int bits = 62 - static_cast<int>(std::bit_width(weights.size()));
  std::vector<uint64_t> whole;
  whole.reserve(weights.size());
  for (const double weight : weights) {
    // A quotient and a power of two: rounded the same everywhere, unlike a product and a sum, which
    // some compilers join.
    const auto rounded = static_cast<uint64_t>(std::ldexp(weight / largest, bits));
    whole.push_back(weight > 0 ? std::max<uint64_t>(rounded, 1) : 0);
  }
  return whole;
}

std::vector<uint64_t> apportioned(std::span<const double> proportions, uint64_t count) {
  __extension__ using uint128 = unsigned __int128;
  const std::vector<uint64_t> whole = whole_weights(proportions);
  const uint64_t sum = std::accumulate(whole.begin(), whole.end(), uint64_t{0});
  std::vector<uint64_t> counts;
  std::vector<std::pair<uint64_t, size_t>> missing;  // what rounding down has cut off, by part
  uint64_t left = count;
  for (size_t part = 0; part < whole.size(); ++part) {
    const uint128 product = static_cast<uint128>(whole[part]) * count;
    counts.push_back(static_cast<uint64_t>(product / sum));
    missing.emplace_back(static_cast<uint64_t>(product % sum), part);
    left -= counts.back();
  }
  std::ranges::stable_sort(missing, std::greater{}, [](const auto& cut) { return cut.first; });
  for (size_t i = 0; i < left; ++i) ++counts[missing[i].second];
  return counts;
}

Status EpochLists::put(data::Epoch epoch, std::span<const int64_t> samples) {
  if (samples.size() != position_count_) {
    return fail(Errc::kInvalidArgument,
                "epoch {} has {} indices, but every epoch of this order has {}",
                data::number_of(epoch), samples.size(), position_count_);
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] < 0 || static_cast<uint64_t>(samples[i]) >= sample_count_) {
      return fail(Errc::kInvalidArgument,
                  "epoch {}: index {} at position {} is out of range; there are {} samples, "
                  "numbered from 0",
                  data::number_of(epoch), samples[i], i, sample_count_);
    }
  }
  auto list = std::make_shared<const List>(samples.begin(), samples.end());
  const MutexLock lock(mutex_);
  const auto is_same = [&](const Kept& kept) { return kept.list && kept.epoch == epoch; };
  auto place = std::ranges::find_if(kept_, is_same);
  if (place == kept_.end()) --place;  // the oldest
  std::rotate(kept_.begin(), place, place + 1);
  kept_.front() = {epoch, std::move(list)};
  return {};
}

std::shared_ptr<const EpochLists::List> EpochLists::find(data::Epoch epoch) const {
  const MutexLock lock(mutex_);
  for (const Kept& kept : kept_) {
    if (kept.list && kept.epoch == epoch) return kept.list;
  }
  return nullptr;
}

}  // namespace millrace::loader::order
