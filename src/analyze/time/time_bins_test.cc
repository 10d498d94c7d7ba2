#include "analyze/time/time_bins.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace::analyze {
namespace {

TEST(TimeBins, CoverTheIntervalWithAtMostTheGivenNumberOfBins) {
  const TimeBins even(1000, 10);
  EXPECT_EQ(even.bin_ns(), 100u);
  EXPECT_EQ(even.count(), 10u);

  const TimeBins uneven(1001, 10);
  EXPECT_EQ(uneven.bin_ns(), 101u);
  EXPECT_EQ(uneven.count(), 10u);
  EXPECT_EQ(uneven.width_of(0), 101u);
  EXPECT_EQ(uneven.width_of(9), 92u);

  const TimeBins shorter(3, 10);
  EXPECT_EQ(shorter.bin_ns(), 1u);
  EXPECT_EQ(shorter.count(), 3u);
}

TEST(TimeBins, AnEmptyIntervalHasOneBin) {
  const TimeBins bins(0, 10);
  EXPECT_EQ(bins.count(), 1u);
  EXPECT_EQ(bins.bin_ns(), 1u);
  EXPECT_EQ(bins.at(0), 0u);
  EXPECT_EQ(bins.at(5), 0u);
}

TEST(TimeBins, TheVeryEndBelongsToTheLastBin) {
  const TimeBins bins(1000, 10);
  EXPECT_EQ(bins.at(999), 9u);
  EXPECT_EQ(bins.at(1000), 9u);
  EXPECT_EQ(bins.at(std::numeric_limits<uint64_t>::max()), 9u);
}

TEST(BinCursor, ReturnsTheSameBinsForAnyOrderOfTimes) {
  const TimeBins bins(1000, 10);
  BinCursor cursor(bins);
  for (const uint64_t moment : {0u, 99u, 100u, 950u, 1000u, 999u, 50u, 100u}) {
    EXPECT_EQ(cursor.at(moment), bins.at(moment)) << moment;
  }
  EXPECT_EQ(cursor.end_ns(), 200u);
}

TEST(ShareOut, AddsUpToTheAmount) {
  const TimeBins bins(1000, 10);
  // 50 in the first bin, 100 in each of three, 7 in the last.
  const Crossing crossing{.begin_ns = 50, .end_ns = 407, .first = 0, .last = 4};
  const Shares of_time = share_out(bins, crossing, 357);
  EXPECT_EQ(of_time.first, 50u);
  EXPECT_EQ(of_time.between, 100u);
  EXPECT_EQ(of_time.last, 7u);

  const Shares of_ten = share_out(bins, crossing, 10);
  EXPECT_EQ(of_ten.first, 1u);
  EXPECT_EQ(of_ten.between, 2u);
  EXPECT_EQ(of_ten.last, 3u);
}

TEST(ShareOut, WorksForTheLargestAmount) {
  const TimeBins bins(1000, 10);
  const uint64_t amount = std::numeric_limits<uint64_t>::max();
  const Shares shares =
      share_out(bins, {.begin_ns = 0, .end_ns = 1000, .first = 0, .last = 9}, amount);
  EXPECT_EQ(shares.first + 8 * shares.between + shares.last, amount);
  EXPECT_EQ(shares.first, amount / 10);
}

}  // namespace
}  // namespace millrace::analyze
