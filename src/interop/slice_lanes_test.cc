#include "interop/slice_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace millrace::interop {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class Lanes {
 public:
  size_t place(uint64_t begin_ns, uint64_t end_ns, bool foreign = false) {
    ended.clear();
    return lanes_.place(begin_ns, end_ns, foreign,
                        [this](size_t lane, uint64_t time) { ended.emplace_back(lane, time); });
  }

  std::vector<std::pair<size_t, uint64_t>> ended;

 private:
  SliceLanes lanes_;
};

TEST(SliceLanes, KeepsNestedSlicesOnTheTrackOfTheThread) {
  Lanes lanes;
  EXPECT_EQ(lanes.place(0, 100), 0u);
  EXPECT_EQ(lanes.place(10, 50), 0u);
  EXPECT_EQ(lanes.place(10, 50), 0u);
  EXPECT_THAT(lanes.ended, IsEmpty());
  EXPECT_EQ(lanes.place(60, 100), 0u);
  EXPECT_THAT(lanes.ended, ElementsAre(Pair(0, 50), Pair(0, 50)));
}

TEST(SliceLanes, PutsOverlappingSlicesOnAnotherTrack) {
  Lanes lanes;
  EXPECT_EQ(lanes.place(0, 100), 0u);
  EXPECT_EQ(lanes.place(50, 150), 1u);
  EXPECT_EQ(lanes.place(60, 160), 2u);
  EXPECT_EQ(lanes.place(70, 80), 0u);
}

TEST(SliceLanes, KeepsRegionsOfOtherThreadsOffTheTrackOfTheThread) {
  Lanes lanes;
  EXPECT_EQ(lanes.place(0, 100, /*foreign=*/true), 1u);
  EXPECT_EQ(lanes.place(50, 150), 0u);
}

TEST(SliceLanes, PutsAdjacentSlicesOnTheSameTrack) {
  Lanes lanes;
  lanes.place(0, 10);
  EXPECT_EQ(lanes.place(10, 10), 0u);
  EXPECT_THAT(lanes.ended, ElementsAre(Pair(0, 10)));
  EXPECT_EQ(lanes.place(10, 10), 0u);
  EXPECT_THAT(lanes.ended, ElementsAre(Pair(0, 10)));
}

}  // namespace
}  // namespace millrace::interop
