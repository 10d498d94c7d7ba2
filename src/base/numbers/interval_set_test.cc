#include "base/numbers/interval_set.h"

#include <gtest/gtest.h>

#include <string>

#include "base/numbers/random.h"

namespace millrace {
namespace {

constexpr size_t kSpan = 600;
using Bitmap = std::vector<bool>;  // one bit per nanosecond

IntervalRun run_of(std::vector<Interval> intervals) { return IntervalRun::of(intervals); }

template <typename Cursor>
std::vector<Interval> listed(Cursor cursor) {
  std::vector<Interval> list;
  for (Interval interval; cursor.next(interval);) list.push_back(interval);
  return list;
}

std::vector<Interval> listed_bits(const Bitmap& bits) {
  std::vector<Interval> list;
  for (size_t i = 0; i < bits.size(); ++i) {
    if (!bits[i]) continue;
    if (list.empty() || list.back().end_ns != i) list.push_back({i, i});
    ++list.back().end_ns;
  }
  return list;
}

uint64_t count_bits(const Bitmap& bits) {
  return static_cast<uint64_t>(std::count(bits.begin(), bits.end(), true));
}

std::vector<Interval> random_intervals(Random& random, size_t count) {
  std::vector<Interval> intervals;
  const uint64_t longest = 1 + (random.below(kSpan) >> random.below(9));
  for (size_t i = 0; i < count; ++i) {
    const uint64_t begin = random.below(kSpan);
    intervals.push_back({begin, std::min<uint64_t>(kSpan, begin + random.below(longest))});
  }
  return intervals;
}

Bitmap bits_of(const std::vector<Interval>& intervals) {
  Bitmap bits(kSpan);
  for (const Interval& interval : intervals) {
    for (uint64_t i = interval.begin_ns; i < interval.end_ns; ++i) bits[i] = true;
  }
  return bits;
}

TEST(IntervalRun, IsEmptyWithoutIntervals) {
  EXPECT_TRUE(run_of({}).empty());
  EXPECT_TRUE(run_of({{5, 5}, {9, 3}}).empty());
  EXPECT_TRUE(listed(RunCursor(run_of({}))).empty());
  EXPECT_EQ(run_of({}).size_bytes(), 0u);
}

TEST(IntervalRun, SortsAndJoinsTouchingIntervals) {
  const IntervalRun run = run_of({{30, 40}, {10, 20}, {20, 25}, {12, 14}, {50, 50}});
  EXPECT_EQ(listed(RunCursor(run)), (std::vector<Interval>{{10, 25}, {30, 40}}));
  EXPECT_EQ(run.count(), 2u);
  EXPECT_EQ(run.begin_ns(), 10u);
  EXPECT_EQ(run.end_ns(), 40u);
  EXPECT_EQ(run.length_ns(), 25u);
}

TEST(IntervalRun, StoresTheWholeRangeOfTimes) {
  const std::vector<Interval> all = {
      {0, 1}, {2, 300}, {uint64_t{1} << 40, UINT64_MAX - 2}, {UINT64_MAX - 1, UINT64_MAX}};
  EXPECT_EQ(listed(RunCursor(run_of(all))), all);
  const std::vector<Interval> whole = {{0, UINT64_MAX}};
  EXPECT_EQ(listed(RunCursor(run_of(whole))), whole);
}

TEST(IntervalRun, TakesFiveBytesPerIntervalOfMicroseconds) {
  std::vector<Interval> intervals;
  for (uint64_t i = 0; i < 10'000; ++i) intervals.push_back({i * 3000, i * 3000 + 700});
  EXPECT_LE(run_of(intervals).size_bytes(), 50'000u + 8);
}

TEST(IntervalRun, IsTheUnionOfItsIntervals) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    auto intervals = random_intervals(random, random.below(40) * random.below(20));
    const Bitmap bits = bits_of(intervals);
    const IntervalRun run = IntervalRun::of(intervals);
    EXPECT_EQ(listed(RunCursor(run)), listed_bits(bits));
    EXPECT_EQ(run.length_ns(), count_bits(bits));
    EXPECT_EQ(measure_ns(RunCursor(run)), count_bits(bits));
  }
}

TEST(IntervalUnion, IsEmptyWithoutIntervals) {
  EXPECT_TRUE(listed(IntervalUnion(std::span<const IntervalRun>{})).empty());
  const std::vector<IntervalRun> empty_ones(3);
  EXPECT_TRUE(listed(IntervalUnion(empty_ones)).empty());
}

TEST(IntervalUnion, JoinsTouchingAndNestedRuns) {
  std::vector<IntervalRun> runs;
  runs.push_back(run_of({{20, 30}, {90, 95}}));
  runs.push_back(run_of({{0, 10}, {10, 20}}));
  runs.push_back(run_of({{22, 23}, {24, 25}, {60, 61}}));
  runs.push_back(run_of({{61, 62}}));
  EXPECT_EQ(listed(IntervalUnion(runs)), (std::vector<Interval>{{0, 30}, {60, 62}, {90, 95}}));
}

TEST(IntervalUnion, IsTheUnionOfItsRuns) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<IntervalRun> runs;
    std::vector<Interval> all;
    for (uint64_t left = random.below(30); left > 0; --left) {
      auto intervals = random_intervals(random, random.below(12));
      all.insert(all.end(), intervals.begin(), intervals.end());
      runs.push_back(IntervalRun::of(intervals));
    }
    std::vector<const IntervalRun*> pointers;
    for (const IntervalRun& run : runs) pointers.push_back(&run);
    const auto expected = listed_bits(bits_of(all));
    EXPECT_EQ(listed(IntervalUnion(runs)), expected);
    EXPECT_EQ(listed(IntervalUnion(pointers)), expected);
    IntervalUnion again(runs);
    EXPECT_EQ(listed(RunCursor(IntervalRun::from(again))), expected);
  }
}

// Consecutive runs, like blocks of one process, with a few that reach into the next.
TEST(IntervalUnion, PassesConsecutiveRunsThrough) {
  Random random(3);
  std::vector<IntervalRun> runs;
  std::vector<Interval> all;
  for (uint64_t block = 0; block < 20; ++block) {
    std::vector<Interval> intervals;
    for (uint64_t i = 0; i < 10; ++i) {
      const uint64_t begin = block * 30 + i * 3;
      intervals.push_back({begin, std::min(kSpan, begin + 1 + random.below(3) * random.below(5))});
    }
    all.insert(all.end(), intervals.begin(), intervals.end());
    runs.push_back(IntervalRun::of(intervals));
  }
  std::swap(runs[3], runs[17]);
  EXPECT_EQ(listed(IntervalUnion(runs)), listed_bits(bits_of(all)));
}

TEST(IntervalRun, IsUnchangedBySaveAndLoad) {
  Random random(5);
  for (int round = 0; round < 50; ++round) {
    auto intervals = random_intervals(random, random.below(60));
    const IntervalRun run = IntervalRun::of(intervals);
    std::vector<std::byte> bytes;
    run.save(bytes);
    ByteReader in(bytes);
    const auto loaded = IntervalRun::load(in);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    EXPECT_TRUE(in.at_end());
    EXPECT_EQ(listed(RunCursor(*loaded)), listed(RunCursor(run)));
    EXPECT_EQ(loaded->begin_ns(), run.begin_ns());
    EXPECT_EQ(loaded->end_ns(), run.end_ns());
    EXPECT_EQ(loaded->length_ns(), run.length_ns());
  }
}

TEST(IntervalRun, LoadRefusesTruncatedBytes) {
  std::vector<std::byte> bytes;
  run_of({{5, 10}, {300, 70'000}, {uint64_t{1} << 50, (uint64_t{1} << 50) + 9}}).save(bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ByteReader in(ByteView(bytes).first(size));
    EXPECT_FALSE(IntervalRun::load(in).ok()) << size;
  }
}

TEST(IntervalRun, LoadOfFlippedBitsFailsOrGivesAValidSet) {
  std::vector<std::byte> good;
  run_of({{5, 10}, {300, 70'000}, {uint64_t{1} << 50, (uint64_t{1} << 50) + 9}}).save(good);
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    ByteReader in(bytes);
    const auto loaded = IntervalRun::load(in);
    if (!loaded.ok()) continue;
    uint64_t before_ns = 0;
    for (const Interval& interval : listed(RunCursor(*loaded))) {
      EXPECT_LE(before_ns, interval.begin_ns);
      EXPECT_LT(interval.begin_ns, interval.end_ns);
      before_ns = interval.end_ns;
    }
    EXPECT_EQ(before_ns, loaded->end_ns());
  }
}

TEST(IntervalRun, LoadNamesImpossibleNumbers) {
  const auto refusal = [](std::vector<uint8_t> numbers) {
    ByteReader in(std::as_bytes(std::span(numbers)));
    const auto loaded = IntervalRun::load(in);
    return loaded.ok() ? std::string("accepted") : loaded.error().message();
  };
  EXPECT_EQ(refusal({1, 5, 2, 0x10, 7}), "accepted");
  EXPECT_EQ(refusal({1, 5, 1, 0x00}), "interval 0 of 1 is not after the previous one");
  EXPECT_EQ(refusal({1, 5, 3, 0x11, 1, 7}), "interval 0 of 1 is not after the previous one");
  EXPECT_EQ(refusal({2, 5, 4, 0x10, 7, 0x10, 7}), "interval 1 of 2 is not after the previous one");
  EXPECT_EQ(refusal({1, 5, 1, 0x90}), "interval 0 of 1 claims a number of more than 8 bytes");
  EXPECT_EQ(refusal({1, 5, 3, 0x10, 7, 0}), "1 bytes are left over after 1 intervals");
  EXPECT_EQ(refusal({1, 5, 9, 0x80, 255, 255, 255, 255, 255, 255, 255, 255}),
            "interval 0 of 1 is not after the previous one");
  EXPECT_EQ(refusal({9, 5, 100}), "100 bytes are needed at byte 3, but 0 are left");
}

}  // namespace
}  // namespace millrace
