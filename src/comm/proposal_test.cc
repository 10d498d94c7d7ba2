#include "comm/proposal.h"

#include <gtest/gtest.h>

namespace millrace::comm {
namespace {

Proposal fold_of(std::initializer_list<Proposal> proposals) {
  Proposal all = *proposals.begin();
  for (const Proposal& proposal : proposals) all.fold_with(proposal);
  return all;
}

TEST(Proposal, EqualCallsMatch) {
  const CollectiveShape shape = {.call = Collective::kReduce, .root = Rank{2}, .value_count = 1000};
  EXPECT_TRUE(fold_of({Proposal(Rank{0}, shape), Proposal(Rank{1}, shape)}).check(2).ok());
}

TEST(Proposal, ADifferenceInAnyPartOfTheShapeIsFound) {
  const CollectiveShape shape = {.call = Collective::kReduce, .root = Rank{2}, .value_count = 1000};
  for (int part = 0; part < 5; ++part) {
    CollectiveShape other = shape;
    if (part == 0) other.call = Collective::kReduceToAll;
    if (part == 1) other.root = Rank{1};
    if (part == 2) other.fold = Fold::kMax;
    if (part == 3) other.floating_point = true;
    if (part == 4) other.value_count = 999;
    EXPECT_FALSE(fold_of({Proposal(Rank{0}, shape), Proposal(Rank{1}, other)}).check(2).ok())
        << part;
    EXPECT_FALSE(fold_of({Proposal(Rank{1}, other), Proposal(Rank{0}, shape)}).check(2).ok())
        << part;
  }
}

TEST(Proposal, TheLowestRankThatFailedIsReported) {
  const CollectiveShape agree = {.call = Collective::kAgree};
  Proposal second(Rank{2}, agree);
  Proposal third(Rank{3}, agree);
  second.has_failed();
  third.has_failed();
  const Proposal all = fold_of({third, Proposal(Rank{0}, {.call = Collective::kGather}), second});
  EXPECT_EQ(all.failed_rank(), Rank{2});
  EXPECT_TRUE(all.check(4).ok()) << "the failure itself is reported";
}

TEST(Proposal, ARankThatEndsIsNamedWithOneThatWaits) {
  const Proposal all = fold_of({Proposal(Rank{0}, {.call = Collective::kEnd}),
                                Proposal(Rank{1}, {.call = Collective::kGather}),
                                Proposal(Rank{2}, {.call = Collective::kEnd})});
  EXPECT_EQ(all.check(3).error().message(), "rank 0 ended while rank 1 waited in a gather");
}

TEST(Proposal, AllRanksMayEndTogether) {
  EXPECT_TRUE(fold_of({Proposal(Rank{0}, {.call = Collective::kEnd}),
                       Proposal(Rank{1}, {.call = Collective::kEnd})})
                  .check(2)
                  .ok());
}

TEST(Proposal, TheLengthComesFromTheRoot) {
  Proposal root(Rank{1}, {.call = Collective::kBroadcast, .root = Rank{1}});
  root.has_bytes(uint64_t{5} << 30);
  const Proposal other(Rank{0}, {.call = Collective::kBroadcast, .root = Rank{1}});
  EXPECT_EQ(fold_of({other, root}).size_bytes(), uint64_t{5} << 30);
}

}  // namespace
}  // namespace millrace::comm
