#include "analyze/epochs/epochs.h"

#include <gtest/gtest.h>

namespace millrace::analyze {
namespace {

EpochIndex two_epochs() {
  EpochIndex index;
  index.add(0, {1, 0, 100, 120}, MarkedBy::kTraining);
  index.add(0, {0, 1, 30, 50}, MarkedBy::kTraining);
  index.add(0, {0, 0, 10, 25}, MarkedBy::kTraining);
  index.add(0, {1, 0, 118, 130}, MarkedBy::kTraining);
  index.finish();
  return index;
}

TEST(EpochIndex, AnEpochLastsUntilTheNextBegins) {
  const EpochIndex index = two_epochs();
  ASSERT_EQ(index.epochs(0).size(), 2u);
  EXPECT_EQ(index.epoch_at(0, 9), -1);
  EXPECT_EQ(index.epoch_at(0, 10), 0);
  EXPECT_EQ(index.epoch_at(0, 99), 0);
  EXPECT_EQ(index.epoch_at(0, 100), 1);
  EXPECT_EQ(index.epoch_at(0, 129), 1);
  EXPECT_EQ(index.epoch_at(0, 130), -1);
}

TEST(EpochIndex, AStepEndsWithItsLastRegion) {
  const EpochIndex index = two_epochs();
  ASSERT_EQ(index.steps(0).size(), 3u);
  EXPECT_EQ(index.step_at(0, 27), nullptr);
  ASSERT_NE(index.step_at(0, 49), nullptr);
  EXPECT_EQ(index.step_at(0, 49)->step, 1);
  ASSERT_NE(index.step_at(0, 125), nullptr);
  EXPECT_EQ(index.step_at(0, 125)->epoch, 1);
}

// Two epochs of training, with threads that read ahead into a third one that never starts.
EpochIndex read_ahead() {
  EpochIndex index;
  index.add(0, {0, 0, 10, 25}, MarkedBy::kTraining);
  index.add(0, {1, 0, 100, 120}, MarkedBy::kTraining);
  index.add(0, {0, 0, 5, 9}, MarkedBy::kReading);
  index.add(0, {1, 0, 20, 60}, MarkedBy::kReading);
  index.add(0, {2, 0, 90, 140}, MarkedBy::kReading);
  index.finish();
  return index;
}

TEST(EpochIndex, ThreadsThatReadAheadStartNeitherEpochsNorSteps) {
  const EpochIndex index = read_ahead();
  ASSERT_EQ(index.epochs(0).size(), 2u);
  EXPECT_EQ(index.epoch_at(0, 5), -1);
  EXPECT_EQ(index.epoch_at(0, 99), 0);
  EXPECT_EQ(index.epoch_at(0, 100), 1);
  EXPECT_EQ(index.epoch_at(0, 120), -1);
  ASSERT_EQ(index.steps(0).size(), 2u);
  EXPECT_EQ(index.steps(0)[1].begin_ns, 100u);
}

TEST(EpochIndex, AReadBelongsToTheEpochThatNeedsIt) {
  const EpochIndex index = read_ahead();
  EXPECT_EQ(index.reading_at(0, 4), -1);
  EXPECT_EQ(index.reading_at(0, 5), 0);
  EXPECT_EQ(index.reading_at(0, 20), 1);
  EXPECT_EQ(index.reading_at(0, 89), 1);
  EXPECT_EQ(index.reading_at(0, 90), -1);  // for an epoch that never started
}

TEST(EpochIndex, IfTrainingMarksNothingTheMarksOfReadersCount) {
  EpochIndex index;
  index.add(0, {0, 0, 5, 9}, MarkedBy::kReading);
  index.add(0, {1, 0, 20, 60}, MarkedBy::kReading);
  index.finish();
  EXPECT_EQ(index.epochs(0).size(), 2u);
  EXPECT_EQ(index.steps(0).size(), 2u);
  EXPECT_EQ(index.reading_at(0, 30), 1);
}

TEST(EpochIndex, AGroupWithoutRegionsHasNoEpochs) {
  const EpochIndex index = two_epochs();
  EXPECT_EQ(index.epoch_at(7, 20), -1);
  EXPECT_EQ(index.step_at(7, 20), nullptr);
  EXPECT_TRUE(index.epochs(7).empty());
  EXPECT_TRUE(EpochIndex().empty());
}

TEST(EpochCursor, AgreesWithTheIndexAtAnyTime) {
  const EpochIndex index = two_epochs();
  EpochCursor cursor(index.epochs(0));
  for (const uint64_t time : {5, 15, 10, 99, 100, 130, 200, 129, 0, 131, 12}) {
    EXPECT_EQ(cursor.at(time), index.epoch_at(0, time)) << time;
  }
  EpochCursor none(index.epochs(3));
  EXPECT_EQ(none.at(15), -1);
}

}  // namespace
}  // namespace millrace::analyze
