#include "base/numbers/quantile_sketch.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/numbers/radix_sort.h"

namespace millrace {
namespace {

constexpr uint64_t kCountMax = (uint64_t{1} << 52) - 1;  // up to here the error is below 1 %
constexpr size_t kLevelCountMax = 41;

void sort_values(std::span<uint64_t> values) {
  radix_sort(values, [](uint64_t value) { return value; });
}

// Avoids branching on the values, which no predictor could learn. Compilers would turn ?: into a
// branch here.
void merge_sorted(std::span<const uint64_t> a, std::span<const uint64_t> b, uint64_t* out) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const uint64_t left = a[i];
    const uint64_t right = b[j];
    const uint64_t takes_right = right < left ? 1 : 0;
    *out++ = left ^ ((left ^ right) & (0 - takes_right));
    j += takes_right;
    i += 1 - takes_right;
  }
  out = std::copy(a.begin() + static_cast<ptrdiff_t>(i), a.end(), out);
  std::copy(b.begin() + static_cast<ptrdiff_t>(j), b.end(), out);
}

// Makes small numbers of either sign short.
uint64_t fold_sign(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
int64_t unfold_sign(uint64_t value) { return static_cast<int64_t>(value >> 1 ^ (0 - (value & 1))); }

Result<std::vector<uint64_t>> load_sorted(ByteReader& in, size_t count, uint64_t min,
                                          uint64_t max) {
  std::vector<uint64_t> values;
  values.reserve(count);
  uint64_t value = min;
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const uint64_t step, in.read_varint());
    if (step > max - value) {
      return fail(Errc::kCorrupt, "the sketch has a value above its maximum, {}", max);
    }
    value += step;
    values.push_back(value);
  }
  return values;
}

}  // namespace

void QuantileSketch::add_all(std::span<const uint64_t> values) {
  if (values.empty()) return;
  if (levels_.empty()) levels_.resize(1);
  for (const uint64_t value : values) {
    min_ = std::min(min_, value);
    max_ = std::max(max_, value);
  }
  count_ += values.size();
  while (!values.empty()) {
    std::vector<uint64_t>& waiting = levels_[0].values;
    const size_t taken = std::min(values.size(), kLevelValues - waiting.size());
    waiting.insert(waiting.end(), values.begin(), values.begin() + static_cast<ptrdiff_t>(taken));
    values = values.subspan(taken);
    if (waiting.size() == kLevelValues) compact_from(0);
  }
}

void QuantileSketch::merge(const QuantileSketch& other) {
  if (other.count_ == 0) return;
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  if (levels_.size() < other.levels_.size()) levels_.resize(other.levels_.size());
  for (size_t height = 0; height < other.levels_.size(); ++height) {
    Level& level = levels_[height];
    const Level& added = other.levels_[height];
    level.balance += added.balance;
    std::vector<uint64_t> both(level.values.size() + added.values.size());
    if (height == 0) {
      const auto end = std::copy(level.values.begin(), level.values.end(), both.begin());
      std::copy(added.values.begin(), added.values.end(), end);
    } else {
      merge_sorted(level.values, added.values, both.data());
    }
    level.values = std::move(both);
  }
  for (size_t height = 0; height < levels_.size(); ++height) {
    if (levels_[height].values.size() >= kLevelValues) compact(height);
  }
}

void QuantileSketch::compact_from(size_t height) {
  for (; height < levels_.size() && levels_[height].values.size() >= kLevelValues; ++height) {
    compact(height);
  }
}

void QuantileSketch::compact(size_t height) {
  if (height + 1 == levels_.size()) levels_.resize(levels_.size() + 1);
  Level& level = levels_[height];
  Level& above = levels_[height + 1];
  if (height == 0) sort_values(level.values);
  // An odd value stays, because it has no partner to represent.
  const size_t pair_count = level.values.size() / 2;
  const bool has_odd_one = level.values.size() % 2 != 0;
  const uint64_t odd_one = level.values.back();
  const size_t offset = level.balance > 0 ? 1 : 0;
  level.balance += offset == 0 ? 1 : -1;
  for (size_t i = 0; i < pair_count; ++i) level.values[i] = level.values[2 * i + offset];
  const auto promoted = std::span<const uint64_t>(level.values).first(pair_count);
  std::vector<uint64_t> both(above.values.size() + pair_count);
  merge_sorted(above.values, promoted, both.data());
  above.values = std::move(both);
  level.values.clear();
  if (has_odd_one) level.values.push_back(odd_one);
}

uint64_t QuantileSketch::quantile(double q) const { return quantiles(std::span(&q, 1)).front(); }

std::vector<uint64_t> QuantileSketch::quantiles(std::span<const double> qs) const {
  std::vector<uint64_t> answers(qs.size(), min());
  if (count_ == 0) return answers;
  struct Weighted {
    uint64_t value;
    uint64_t weight;
  };
  std::vector<Weighted> all;
  size_t total = 0;
  for (const Level& level : levels_) total += level.values.size();
  all.reserve(total);
  for (size_t height = 0; height < levels_.size(); ++height) {
    for (const uint64_t value : levels_[height].values) {
      all.push_back({value, uint64_t{1} << height});
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  uint64_t rank = 0;
  for (Weighted& item : all) item.weight = rank += item.weight;
  for (size_t i = 0; i < qs.size(); ++i) {
    if (qs[i] >= 1) answers[i] = max_;
    if (qs[i] <= 0 || qs[i] >= 1) continue;
    const auto wanted = static_cast<uint64_t>(std::ceil(qs[i] * static_cast<double>(count_)));
    const auto found =
        std::lower_bound(all.begin(), all.end(), wanted,
                         [](const Weighted& item, uint64_t want) { return item.weight < want; });
    answers[i] = found == all.end() ? max_ : found->value;
  }
  return answers;
}

double QuantileSketch::rank_error_bound() const {
  if (count_ < kLevelValues) return 0;
  const auto levels = static_cast<double>(std::bit_width(count_ / kLevelValues));
  return levels / static_cast<double>(kLevelValues);
}

// Format, with numbers as LEB128: the count and, unless it is 0, the minimum, maximum - minimum and
// the number of levels; for each level its balance (sign in the lowest bit), its number of values,
// and the sorted values as differences, starting from the minimum.
void QuantileSketch::save(std::vector<std::byte>& out) const {
  append_varint(out, count_);
  if (count_ == 0) return;
  append_varint(out, min_);
  append_varint(out, max_ - min_);
  append_varint(out, levels_.size());
  std::vector<uint64_t> sorted;
  for (const Level& level : levels_) {
    append_varint(out, fold_sign(level.balance));
    append_varint(out, level.values.size());
    sorted = level.values;
    if (&level == levels_.data()) sort_values(sorted);
    uint64_t before = min_;
    for (const uint64_t value : sorted) {
      append_varint(out, value - before);
      before = value;
    }
  }
}

Result<QuantileSketch> QuantileSketch::load(ByteReader& in) {
  QuantileSketch sketch;
  ASSIGN_OR_RETURN(sketch.count_, in.read_varint());
  if (sketch.count_ == 0) return sketch;
  if (sketch.count_ > kCountMax) {
    return fail(Errc::kCorrupt, "the sketch claims {} values; at most {} are allowed",
                sketch.count_, kCountMax);
  }
  ASSIGN_OR_RETURN(sketch.min_, in.read_varint());
  ASSIGN_OR_RETURN(const uint64_t spread, in.read_varint());
  if (spread > UINT64_MAX - sketch.min_) {
    return fail(Errc::kCorrupt, "the maximum of the sketch does not fit into 64 bits");
  }
  sketch.max_ = sketch.min_ + spread;
  ASSIGN_OR_RETURN(const uint64_t level_count, in.read_varint());
  if (level_count == 0 || level_count > kLevelCountMax) {
    return fail(Errc::kCorrupt, "the sketch claims {} levels; 1 to {} are allowed", level_count,
                kLevelCountMax);
  }
  sketch.levels_.resize(level_count);
  uint64_t weight_left = sketch.count_;
  for (size_t height = 0; height < level_count; ++height) {
    Level& level = sketch.levels_[height];
    ASSIGN_OR_RETURN(const uint64_t balance, in.read_varint());
    level.balance = unfold_sign(balance);
    if (balance / 2 > sketch.count_ / kLevelValues) {
      return fail(Errc::kCorrupt, "level {} of the sketch claims a balance of {}", height,
                  level.balance);
    }
    ASSIGN_OR_RETURN(const uint64_t size, in.read_varint());
    if (size >= kLevelValues || size > weight_left >> height) {
      return fail(Errc::kCorrupt,
                  "level {} of the sketch claims {} values, too many for {} in total", height, size,
                  sketch.count_);
    }
    weight_left -= size << height;
    ASSIGN_OR_RETURN(level.values, load_sorted(in, size, sketch.min_, sketch.max_));
  }
  if (weight_left != 0) {
    return fail(Errc::kCorrupt, "the sketch claims {} values, but its levels lack {}",
                sketch.count_, weight_left);
  }
  return sketch;
}

}  // namespace millrace
