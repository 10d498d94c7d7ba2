#include "loader/tiers/hold_set.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "base/numbers/random.h"

namespace millrace::loader::tiers {
namespace {

using data::SampleId;
using testing::ElementsAre;

UseTime at(uint64_t time) { return UseTime{time}; }

std::optional<UseTime> next_in(const std::vector<uint64_t>& reads, size_t now) {
  for (size_t i = now + 1; i < reads.size(); ++i) {
    if (reads[i] == reads[now]) return at(i);
  }
  return std::nullopt;
}

// Keeps each sample after its read if its next use is soon enough, as the tiers do.
size_t hits_by_the_rule(const std::vector<uint64_t>& reads, uint64_t capacity) {
  HoldSet held(capacity);
  size_t hits = 0;
  std::vector<SampleId> gone;
  for (size_t i = 0; i < reads.size(); ++i) {
    const SampleId sample{reads[i]};
    const auto next = next_in(reads, i);
    if (held.contains(sample)) {
      ++hits;
      if (next) {
        held.touch(sample, *next);
      } else {
        held.erase(sample);
      }
    } else if (next) {
      held.admit({sample, 1, *next}, gone);
    }
    EXPECT_LE(held.used_bytes(), capacity);
  }
  return hits;
}

// The maximum number of hits of any strategy, by exhaustive search: for every set of samples that
// may be held after a read, the hits of the best way to reach it.
size_t hits_at_best(const std::vector<uint64_t>& reads, int capacity) {
  std::map<uint32_t, size_t> best = {{0, 0}};
  for (const uint64_t sample : reads) {
    const uint32_t bit = 1u << sample;
    std::map<uint32_t, size_t> after;
    for (const auto& [held, hits] : best) {
      const size_t now = hits + ((held & bit) != 0 ? 1 : 0);
      const uint32_t may_hold = held | bit;
      for (uint32_t kept = may_hold;; kept = (kept - 1) & may_hold) {
        if (__builtin_popcount(kept) <= capacity) after[kept] = std::max(after[kept], now);
        if (kept == 0) break;
      }
    }
    best = std::move(after);
  }
  return std::ranges::max_element(best, {}, [](const auto& state) { return state.second; })->second;
}

TEST(HoldSet, NoStrategyHasMoreHits) {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    const uint64_t samples = 2 + random.below(5);
    std::vector<uint64_t> reads(14);
    for (uint64_t& read : reads) read = random.below(samples);
    for (const int capacity : {0, 1, 2, 3}) {
      ASSERT_EQ(hits_by_the_rule(reads, static_cast<uint64_t>(capacity)),
                hits_at_best(reads, capacity))
          << "round " << round << ", capacity " << capacity;
    }
  }
}

TEST(HoldSet, DropsTheSampleUsedLastFirst) {
  HoldSet held(30);
  std::vector<SampleId> gone;
  EXPECT_TRUE(held.admit({SampleId{1}, 10, at(100)}, gone));
  EXPECT_TRUE(held.admit({SampleId{2}, 10, at(300)}, gone));
  EXPECT_TRUE(held.admit({SampleId{3}, 10, at(200)}, gone));
  EXPECT_TRUE(held.admit({SampleId{4}, 20, at(50)}, gone));
  EXPECT_THAT(gone, ElementsAre(SampleId{2}, SampleId{3}));
  EXPECT_EQ(held.used_bytes(), 30u);
}

TEST(HoldSet, DoesNotDropSamplesForOneUsedLater) {
  HoldSet held(30);
  std::vector<SampleId> gone;
  EXPECT_TRUE(held.admit({SampleId{1}, 20, at(100)}, gone));
  EXPECT_TRUE(held.admit({SampleId{2}, 10, at(300)}, gone));
  // Room for it needs both to be dropped, but the first is used sooner.
  EXPECT_FALSE(held.admit({SampleId{3}, 20, at(200)}, gone));
  EXPECT_FALSE(held.admit({SampleId{4}, 31, at(1)}, gone));
  EXPECT_TRUE(gone.empty());
  EXPECT_EQ(held.count(), 2u);
}

TEST(HoldSet, RefreshReplacesUsesThatDidNotHappen) {
  HoldSet held(30);
  std::vector<SampleId> gone;
  for (const uint64_t i : {1, 2, 3}) held.admit({SampleId{i}, 10, at(i * 100)}, gone);
  held.refresh(
      at(250),
      [](SampleId sample) { return sample == SampleId{1} ? std::optional(at(900)) : std::nullopt; },
      gone);
  EXPECT_THAT(gone, ElementsAre(SampleId{2}));
  EXPECT_EQ(held.last_used()->sample, SampleId{1});
  EXPECT_EQ(held.last_used()->next_use, at(900));
}

}  // namespace
}  // namespace millrace::loader::tiers
