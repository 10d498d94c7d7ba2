#include "store/order/read_progress.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace millrace::store {
namespace {

using std::chrono::seconds;

ReadProgress progress_of(std::initializer_list<uint32_t> order, uint64_t window) {
  ReadProgress progress(window, seconds(5));
  for (const uint32_t entry : order) progress.expect(entry);
  return progress;
}

TEST(ReadProgress, WorkersReadOutOfOrder) {
  ReadProgress progress = progress_of({1, 2, 3, 4}, 4);
  progress.closed(2, seconds(0));
  progress.closed(4, seconds(0));
  EXPECT_EQ(progress.done_count(), 0u);
  progress.closed(1, seconds(0));
  EXPECT_EQ(progress.done_count(), 2u);
  progress.closed(3, seconds(0));
  EXPECT_EQ(progress.done_count(), 4u);
  EXPECT_EQ(progress.expected_count(), 4u);
}

TEST(ReadProgress, TheSecondCloseOfAFileIsNotTheReadOfTheNextEpoch) {
  ReadProgress progress = progress_of({1, 2, 3, 4, 1, 2, 3, 4}, 2);
  for (const uint32_t entry : {1, 1, 2, 2}) progress.closed(entry, seconds(0));
  EXPECT_EQ(progress.done_count(), 2u);
  for (const uint32_t entry : {3, 3, 4, 4, 1, 1}) progress.closed(entry, seconds(0));
  EXPECT_EQ(progress.done_count(), 5u);
}

TEST(ReadProgress, FilesThatAreNotInTheOrderDoNotCount) {
  ReadProgress progress = progress_of({1, 2}, 4);
  progress.closed(7, seconds(0));
  EXPECT_EQ(progress.done_count(), 0u);
}

TEST(ReadProgress, AReadThatWasPassedOverIsGivenUp) {
  ReadProgress progress = progress_of({1, 2, 3, 1, 4}, 4);
  progress.closed(3, seconds(10));
  progress.give_up_until(seconds(14));
  EXPECT_EQ(progress.done_count(), 0u);
  progress.give_up_until(seconds(15));
  EXPECT_EQ(progress.done_count(), 3u);
  progress.closed(1, seconds(16));  // its second read
  EXPECT_EQ(progress.done_count(), 4u);
  progress.give_up_until(seconds(99));  // nothing after it was read
  EXPECT_EQ(progress.done_count(), 4u);
}

}  // namespace
}  // namespace millrace::store
