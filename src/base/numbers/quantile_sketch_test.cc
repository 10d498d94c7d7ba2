#include "base/numbers/quantile_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/numbers/random.h"

namespace millrace {
namespace {

QuantileSketch sketch_of(std::span<const uint64_t> values) {
  QuantileSketch sketch;
  for (const uint64_t value : values) sketch.add(value);
  return sketch;
}

std::vector<std::byte> saved(const QuantileSketch& sketch) {
  std::vector<std::byte> bytes;
  sketch.save(bytes);
  return bytes;
}

// The largest rank error of any answer, as a share of the count.
double worst_rank_error(const QuantileSketch& sketch, std::vector<uint64_t> values) {
  std::sort(values.begin(), values.end());
  std::vector<double> qs;
  for (int i = 1; i < 1000; ++i) qs.push_back(i / 1000.0);
  const std::vector<uint64_t> answers = sketch.quantiles(qs);
  const auto count = static_cast<double>(values.size());
  double worst = 0;
  for (size_t i = 0; i < qs.size(); ++i) {
    const auto [first, last] = std::equal_range(values.begin(), values.end(), answers[i]);
    const double wanted = std::ceil(qs[i] * count);
    const auto below = static_cast<double>(first - values.begin());
    const auto through = static_cast<double>(last - values.begin());
    worst = std::max({worst, (below + 1 - wanted) / count, (wanted - through) / count});
  }
  return worst;
}

void expect_within_the_bound(const QuantileSketch& sketch, const std::vector<uint64_t>& values) {
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  EXPECT_EQ(sketch.count(), values.size());
  EXPECT_EQ(sketch.min(), *least);
  EXPECT_EQ(sketch.max(), *greatest);
  EXPECT_EQ(sketch.quantile(0), *least);
  EXPECT_EQ(sketch.quantile(1), *greatest);
  EXPECT_LT(sketch.rank_error_bound(), 0.01);
  EXPECT_LE(worst_rank_error(sketch, values), sketch.rank_error_bound());
}

constexpr size_t kMany = 300'000;

std::vector<uint64_t> random_values(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint64_t> values;
  for (size_t i = 0; i < count; ++i) values.push_back(random.next() >> random.below(40));
  return values;
}

TEST(QuantileSketch, IsZeroIfEmpty) {
  const QuantileSketch none;
  EXPECT_EQ(none.count(), 0u);
  EXPECT_EQ(none.min(), 0u);
  EXPECT_EQ(none.max(), 0u);
  EXPECT_EQ(none.quantile(0.5), 0u);
  EXPECT_EQ(none.rank_error_bound(), 0);
}

TEST(QuantileSketch, IsExactForFewValues) {
  const uint64_t values[] = {50, 10, 40, 20, 30};
  const QuantileSketch sketch = sketch_of(values);
  const double qs[] = {1, 0.5, 0.2, 0.21, 0, 0.99};
  EXPECT_EQ(sketch.quantiles(qs), (std::vector<uint64_t>{50, 30, 10, 20, 10, 50}));
  const auto more = random_values(QuantileSketch::kLevelValues - 1, 3);
  EXPECT_LE(worst_rank_error(sketch_of(more), more), 0);
}

TEST(QuantileSketch, KeepsItsBoundForRandomValues) {
  const auto values = random_values(kMany, 1);
  expect_within_the_bound(sketch_of(values), values);
}

TEST(QuantileSketch, KeepsItsBoundForSortedAndReversedValues) {
  std::vector<uint64_t> values(kMany);
  for (size_t i = 0; i < kMany; ++i) values[i] = i * 17;
  expect_within_the_bound(sketch_of(values), values);
  std::reverse(values.begin(), values.end());
  expect_within_the_bound(sketch_of(values), values);
}

TEST(QuantileSketch, IsExactForOneRepeatedValue) {
  const std::vector<uint64_t> values(kMany, UINT64_MAX);
  const QuantileSketch sketch = sketch_of(values);
  for (const double q : {0.0, 0.01, 0.5, 0.99, 1.0}) EXPECT_EQ(sketch.quantile(q), UINT64_MAX);
}

TEST(QuantileSketch, KeepsItsBoundForManyTies) {
  Random random(4);
  std::vector<uint64_t> values;
  for (size_t i = 0; i < kMany; ++i)
    values.push_back(random.below(10) < 9 ? 4096 : random.below(8));
  expect_within_the_bound(sketch_of(values), values);
}

// Like latencies: nine of ten from the page cache, one from a remote disk.
TEST(QuantileSketch, SeparatesTwoDistantPeaks) {
  Random random(5);
  std::vector<uint64_t> values;
  for (size_t i = 0; i < kMany; ++i) {
    const bool is_slow = random.below(10) == 0;
    values.push_back(is_slow ? 300'000'000 + random.below(1'000'000) : 1000 + random.below(100));
  }
  const QuantileSketch sketch = sketch_of(values);
  expect_within_the_bound(sketch, values);
  EXPECT_LT(sketch.quantile(0.89), 1100u);
  EXPECT_GT(sketch.quantile(0.91), 300'000'000u);
}

// If the offset did not alternate, pairs of alternating values would always drop the same side.
TEST(QuantileSketch, KeepsItsBoundForAlternatingValues) {
  std::vector<uint64_t> values;
  for (size_t i = 0; i < kMany; ++i) values.push_back(i % 2 == 0 ? i : UINT64_MAX - i);
  expect_within_the_bound(sketch_of(values), values);
}

TEST(QuantileSketch, AddAllEqualsAddingEachValue) {
  const auto values = random_values(50'000, 6);
  QuantileSketch sketch;
  std::span<const uint64_t> left = values;
  for (size_t size = 1; !left.empty(); size = size * 3 + 1) {
    const auto piece = left.first(std::min(size, left.size()));
    sketch.add_all(piece);
    sketch.add_all({});
    left = left.subspan(piece.size());
  }
  EXPECT_EQ(saved(sketch), saved(sketch_of(values)));
}

TEST(QuantileSketch, KeepsItsBoundWhenMergedInAnyTree) {
  const auto values = random_values(kMany, 9);
  std::vector<QuantileSketch> parts;
  Random random(10);
  std::span<const uint64_t> left = values;
  while (!left.empty()) {
    const size_t size =
        std::min<size_t>(left.size(), 1 + (random.below(20'000) >> random.below(14)));
    parts.push_back(sketch_of(left.first(size)));
    left = left.subspan(size);
  }
  QuantileSketch in_a_row;
  for (const QuantileSketch& part : parts) in_a_row.merge(part);
  expect_within_the_bound(in_a_row, values);
  QuantileSketch from_the_end;
  for (size_t i = parts.size(); i > 0; --i) from_the_end.merge(parts[i - 1]);
  expect_within_the_bound(from_the_end, values);
  while (parts.size() > 1) {
    std::vector<QuantileSketch> pairs;
    for (size_t i = 0; i < parts.size(); i += 2) {
      pairs.push_back(parts[i]);
      if (i + 1 < parts.size()) pairs.back().merge(parts[i + 1]);
    }
    parts = std::move(pairs);
  }
  expect_within_the_bound(parts[0], values);
}

// Every part rounds its only compaction to the same side, so errors cannot cancel.
TEST(QuantileSketch, KeepsItsBoundWhenAllPartsErrTheSameWay) {
  std::vector<uint64_t> values;
  QuantileSketch merged;
  for (uint64_t part = 0; part < 64; ++part) {
    std::vector<uint64_t> own;
    for (uint64_t i = 0; i < QuantileSketch::kLevelValues; ++i) own.push_back(i * 64 + part);
    merged.merge(sketch_of(own));
    values.insert(values.end(), own.begin(), own.end());
  }
  expect_within_the_bound(merged, values);
}

TEST(QuantileSketch, MergingAnEmptySketchChangesNothing) {
  const auto values = random_values(10'000, 11);
  QuantileSketch sketch = sketch_of(values);
  sketch.merge(QuantileSketch{});
  EXPECT_EQ(saved(sketch), saved(sketch_of(values)));
  QuantileSketch none;
  none.merge(sketch);
  EXPECT_EQ(saved(none), saved(sketch));
}

TEST(QuantileSketch, IsUnchangedBySaveAndLoad) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{4096}, size_t{100'001}}) {
    const auto values = random_values(count, 12);
    const QuantileSketch sketch = sketch_of(values);
    const auto bytes = saved(sketch);
    ByteReader in(bytes);
    auto loaded = QuantileSketch::load(in);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    EXPECT_TRUE(in.at_end());
    EXPECT_EQ(loaded->count(), sketch.count());
    EXPECT_EQ(loaded->quantile(0.95), sketch.quantile(0.95));
    EXPECT_EQ(saved(*loaded), bytes);
  }
}

TEST(QuantileSketch, SavesSmallSketchesInFewBytes) {
  const uint64_t values[] = {100, 101, 102};
  EXPECT_LE(saved(sketch_of(values)).size(), 10u);
}

TEST(QuantileSketch, LoadRefusesTruncatedBytes) {
  const auto bytes = saved(sketch_of(random_values(5000, 13)));
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 50) {
    ByteReader in(ByteView(bytes).first(size));
    EXPECT_FALSE(QuantileSketch::load(in).ok()) << size;
  }
}

// Any bytes give an error or a consistent sketch.
TEST(QuantileSketch, LoadOfFlippedBitsFailsOrGivesAConsistentSketch) {
  const auto good = saved(sketch_of(random_values(4500, 14)));
  Random random(15);
  for (int round = 0; round < 300; ++round) {
    auto bytes = good;
    const size_t place = round < 100 ? static_cast<size_t>(round) / 8 : random.below(bytes.size());
    bytes[place] ^= static_cast<std::byte>(1u << (round % 8));
    ByteReader in(bytes);
    auto loaded = QuantileSketch::load(in);
    if (!loaded.ok()) continue;
    EXPECT_GE(loaded->quantile(0.5), loaded->min());
    EXPECT_LE(loaded->quantile(0.5), loaded->max());
    loaded->merge(*loaded);
  }
}

TEST(QuantileSketch, LoadNamesImpossibleNumbers) {
  const auto refusal = [](std::vector<uint64_t> numbers) {
    std::byte bytes[200];
    ByteWriter out(bytes);
    for (const uint64_t number : numbers) EXPECT_TRUE(out.write_varint(number).ok());
    ByteReader in(out.written());
    const auto loaded = QuantileSketch::load(in);
    return loaded.ok() ? std::string("accepted") : loaded.error().message();
  };
  EXPECT_EQ(refusal({1, 5, 0, 1, 0, 1, 0}), "accepted");
  EXPECT_EQ(refusal({UINT64_MAX, 0, 0, 1, 0, 0}),
            "the sketch claims 18446744073709551615 values; at most 4503599627370495 are allowed");
  EXPECT_EQ(refusal({1, 5, UINT64_MAX}), "the maximum of the sketch does not fit into 64 bits");
  EXPECT_EQ(refusal({1, 5, 0, 42}), "the sketch claims 42 levels; 1 to 41 are allowed");
  EXPECT_EQ(refusal({1, 5, 0, 1, 0, 2}),
            "level 0 of the sketch claims 2 values, too many for 1 in total");
  EXPECT_EQ(refusal({9000, 5, 0, 1, 0, 4096}),
            "level 0 of the sketch claims 4096 values, too many for 9000 in total");
  EXPECT_EQ(refusal({2, 5, 0, 1, 0, 1, 0}), "the sketch claims 2 values, but its levels lack 1");
  EXPECT_EQ(refusal({1, 5, 3, 1, 0, 1, 4}), "the sketch has a value above its maximum, 8");
  EXPECT_EQ(refusal({1, 5, 3, 1, 3, 1, 4}), "level 0 of the sketch claims a balance of -2");
}

}  // namespace
}  // namespace millrace
