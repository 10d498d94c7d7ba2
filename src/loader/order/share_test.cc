#include "loader/order/share.h"

#include <gmock/gmock.h>

#include <vector>

namespace millrace::loader::order {
namespace {

using testing::ElementsAre;

// The positions of a rank, batch by batch; those of padding rows separately.
struct Visited {
  std::vector<std::vector<uint64_t>> real;
  std::vector<std::vector<uint64_t>> padding;
};

Visited visit(const ShareOptions& options) {
  const Share share(options);
  Visited visited;
  for (uint64_t index = 0; index < share.batch_count(); ++index) {
    const BatchPlan plan = share.batch(index);
    auto& real = visited.real.emplace_back();
    auto& padding = visited.padding.emplace_back();
    for (uint64_t row = 0; row < plan.row_count; ++row) {
      (row < plan.real_count ? real : padding).push_back(share.position(plan, row));
    }
  }
  EXPECT_EQ(share.batch(share.batch_count()).row_count, 0u);
  return visited;
}

TEST(Share, RanksTakeTurns) {
  const ShareOptions options{.sample_count = 12, .world = {.rank = 1, .size = 3}, .batch_size = 2};
  EXPECT_THAT(visit(options).real, ElementsAre(ElementsAre(1, 4), ElementsAre(7, 10)));
}

TEST(Share, DropLeavesOutWhatDoesNotFillABatchOfEveryRank) {
  ShareOptions options{
      .sample_count = 11, .world = {.size = 2}, .batch_size = 2, .tail = Tail::kDrop};
  EXPECT_THAT(visit(options).real, ElementsAre(ElementsAre(0, 2), ElementsAre(4, 6)));
  options.world.rank = 1;
  EXPECT_THAT(visit(options).real, ElementsAre(ElementsAre(1, 3), ElementsAre(5, 7)));
  options.sample_count = 3;
  EXPECT_EQ(Share(options).batch_count(), 0u);
}

TEST(Share, PadFillsTheLastBatchFromTheStartOfTheEpoch) {
  ShareOptions options{
      .sample_count = 5, .world = {.size = 2}, .batch_size = 2, .tail = Tail::kPad};
  EXPECT_THAT(visit(options).real, ElementsAre(ElementsAre(0, 2), ElementsAre(4)));
  EXPECT_THAT(visit(options).padding, ElementsAre(ElementsAre(), ElementsAre(1)));
  options.world.rank = 1;
  EXPECT_THAT(visit(options).real, ElementsAre(ElementsAre(1, 3), ElementsAre()));
  EXPECT_THAT(visit(options).padding, ElementsAre(ElementsAre(), ElementsAre(0, 2)));
}

TEST(Share, PadsWithARanksOwnPositionsOnRequest) {
  const Share share(
      {.sample_count = 7, .world = {.rank = 1, .size = 3}, .batch_size = 5, .tail = Tail::kPad});
  const BatchPlan plan = share.batch(0);  // has 1 and 4
  std::vector<uint64_t> own;
  for (uint64_t row = 0; row < plan.row_count; ++row) own.push_back(share.own_position(plan, row));
  EXPECT_THAT(own, ElementsAre(1, 4, 1, 4, 1));
}

TEST(Share, PadRepeatsFewSamplesAsOftenAsNeeded) {
  const ShareOptions options{
      .sample_count = 2, .world = {.rank = 0, .size = 1}, .batch_size = 5, .tail = Tail::kPad};
  EXPECT_THAT(visit(options).real, ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(visit(options).padding, ElementsAre(ElementsAre(0, 1, 0)));
}

TEST(Share, UnevenGivesSomeRanksAnExtraBatch) {
  ShareOptions options{.sample_count = 5, .world = {.size = 2}, .batch_size = 2};
  EXPECT_THAT(visit(options).real, ElementsAre(ElementsAre(0, 2), ElementsAre(4)));
  options.world.rank = 1;
  EXPECT_THAT(visit(options).real, ElementsAre(ElementsAre(1, 3)));
}

TEST(Share, AnEpochWithoutSamplesHasNoBatches) {
  for (const Tail tail : {Tail::kDrop, Tail::kPad, Tail::kUneven}) {
    EXPECT_EQ(Share({.sample_count = 0, .batch_size = 4, .tail = tail}).batch_count(), 0u);
    EXPECT_EQ(Share({.sample_count = 9, .done = 9, .batch_size = 4, .tail = tail}).batch_count(),
              0u);
  }
}

struct Epochs {
  uint64_t sample_count;
  uint32_t world_size;
  uint64_t batch_size;
};

class ShareOfAll : public testing::TestWithParam<Epochs> {
 protected:
  ShareOptions options(uint32_t rank, Tail tail, uint64_t done = 0) const {
    return {.sample_count = GetParam().sample_count,
            .done = done,
            .world = {.rank = rank, .size = GetParam().world_size},
            .batch_size = GetParam().batch_size,
            .tail = tail};
  }

  // Counts the positions that all ranks visit from `done` on, in at most `batches` batches each.
  static void count_visits(ShareOptions options, uint64_t batches, std::vector<int>& visits) {
    for (uint32_t rank = 0; rank < options.world.size; ++rank) {
      options.world.rank = rank;
      const Visited visited = visit(options);
      for (uint64_t i = 0; i < std::min<uint64_t>(batches, visited.real.size()); ++i) {
        for (const uint64_t position : visited.real[i]) ++visits[position];
      }
    }
  }
};

TEST_P(ShareOfAll, EveryPositionIsVisitedOnce) {
  for (const Tail tail : {Tail::kPad, Tail::kUneven}) {
    std::vector<int> visits(GetParam().sample_count);
    count_visits(options(0, tail), ~uint64_t{0}, visits);
    EXPECT_THAT(visits, testing::Each(1)) << tail_name(tail);
  }
}

TEST_P(ShareOfAll, DropAndPadGiveAllRanksEquallyManyFullBatches) {
  for (const Tail tail : {Tail::kDrop, Tail::kPad}) {
    const uint64_t count = Share(options(0, tail)).batch_count();
    for (uint32_t rank = 0; rank < GetParam().world_size; ++rank) {
      const Share share(options(rank, tail));
      EXPECT_EQ(share.batch_count(), count);
      for (uint64_t i = 0; i < count; ++i) {
        EXPECT_EQ(share.batch(i).row_count, GetParam().batch_size);
        EXPECT_TRUE(tail == Tail::kPad || share.batch(i).real_count == GetParam().batch_size);
      }
    }
  }
}

TEST_P(ShareOfAll, DropLosesLessThanAStep) {
  std::vector<int> visits(GetParam().sample_count);
  count_visits(options(0, Tail::kDrop), ~uint64_t{0}, visits);
  EXPECT_THAT(visits, testing::Each(testing::Le(1)));
  const auto lost = static_cast<uint64_t>(std::ranges::count(visits, 0));
  EXPECT_LT(lost, GetParam().batch_size * GetParam().world_size);
}

TEST_P(ShareOfAll, ResumesInAWorldOfAnotherSize) {
  for (const Tail tail : {Tail::kPad, Tail::kUneven}) {
    for (const uint64_t batches : {0, 1, 2, 5}) {
      for (const uint32_t world_size : {1, 2, 5}) {
        std::vector<int> visits(GetParam().sample_count);
        count_visits(options(0, tail), batches, visits);
        ShareOptions later = options(0, tail, Share(options(0, tail)).done_after(batches));
        later.world.size = world_size;
        count_visits(later, ~uint64_t{0}, visits);
        EXPECT_THAT(visits, testing::Each(1)) << tail_name(tail) << batches << " " << world_size;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Epochs, ShareOfAll,
                         testing::Values(Epochs{0, 3, 4}, Epochs{1, 1, 1}, Epochs{1, 3, 4},
                                         Epochs{11, 3, 4}, Epochs{12, 3, 4}, Epochs{13, 3, 4},
                                         Epochs{25, 3, 4}, Epochs{100, 7, 3}, Epochs{100, 1, 100}));

TEST(Share, ParsesTheNamesOfTails) {
  for (const Tail tail : {Tail::kDrop, Tail::kPad, Tail::kUneven}) {
    EXPECT_EQ(*tail_from(tail_name(tail)), tail);
  }
  EXPECT_EQ(tail_from("pads").error().message(),
            "unknown tail 'pads'; did you mean 'pad'?; choose one of drop, pad, uneven");
}

TEST(Share, TheLargestNumbersDoNotOverflow) {
  const ShareOptions options{.sample_count = uint64_t{1} << 63,
                             .world = {.rank = (1u << 31) - 1, .size = 1u << 31},
                             .batch_size = Share::kBatchSizeMax,
                             .tail = Tail::kPad};
  const Share share(options);
  EXPECT_EQ(share.batch_count(), 4u);
  const BatchPlan last = share.batch(3);
  EXPECT_EQ(share.position(last, last.row_count - 1), (uint64_t{1} << 63) - 1);
  EXPECT_EQ(share.done_after(~uint64_t{0}), uint64_t{1} << 63);
}

}  // namespace
}  // namespace millrace::loader::order
