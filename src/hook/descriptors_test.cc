#include "hook/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace millrace::hook {
namespace {

class DescriptorsTest : public testing::Test {
 protected:
  uint32_t file(int fd) {
    const Description* found = descriptors().find(fd);
    return found == nullptr ? 0 : found->file.load();
  }
  // On the heap because it is large. Not freed while a test runs.
  Descriptors& descriptors() { return *descriptors_; }

 private:
  std::unique_ptr<Descriptors> descriptors_ = std::make_unique<Descriptors>();
};

TEST_F(DescriptorsTest, ADescriptorThatWasNeverOpenedIsUnknown) {
  EXPECT_EQ(descriptors().find(3), nullptr);
  EXPECT_EQ(descriptors().find(-1), nullptr);
  EXPECT_EQ(descriptors().find(1 << 30), nullptr);
}

TEST_F(DescriptorsTest, OpenedKnowsTheFileAndClosedForgetsIt) {
  descriptors().opened(5, 42, 0);
  EXPECT_EQ(file(5), 42u);
  descriptors().closed(5);
  EXPECT_EQ(file(5), 0u);
  descriptors().closed(5);
}

TEST_F(DescriptorsTest, DuplicatesShareTheFileAndItsPosition) {
  descriptors().opened(5, 42, 0);
  descriptors().duplicated(5, 9);
  EXPECT_EQ(descriptors().moved_from(*descriptors().find(5), 5, 100), 0u);
  EXPECT_EQ(descriptors().moved_from(*descriptors().find(9), 9, 50), 100u);
  descriptors().closed(5);
  EXPECT_EQ(file(9), 42u);
  EXPECT_EQ(descriptors().moved_from(*descriptors().find(9), 9, 1), 150u);
}

TEST_F(DescriptorsTest, DuplicatingOntoAnOpenDescriptorReplacesIt) {
  descriptors().opened(5, 42, 0);
  descriptors().opened(6, 43, 0);
  descriptors().duplicated(5, 6);
  EXPECT_EQ(file(6), 42u);
  descriptors().duplicated(5, 5);
  EXPECT_EQ(file(5), 42u);
  descriptors().duplicated(77, 6);
  EXPECT_EQ(file(6), 0u) << "a duplicate of something unknown is unknown";
}

TEST_F(DescriptorsTest, ClosingARangeLeavesItsNeighboursOpen) {
  for (int fd = 3; fd < 10; ++fd) descriptors().opened(fd, static_cast<uint32_t>(fd), 0);
  descriptors().closed_range(5, 7);
  EXPECT_EQ(file(4), 4u);
  EXPECT_EQ(file(5), 0u);
  EXPECT_EQ(file(7), 0u);
  EXPECT_EQ(file(8), 8u);
  descriptors().closed_range(0, ~0u);
  EXPECT_EQ(file(9), 0u);
}

TEST_F(DescriptorsTest, AMillionDescriptorsAreNotTooMany) {
  for (int fd = 0; fd < 1'000'000; ++fd) descriptors().opened(fd, static_cast<uint32_t>(fd + 1), 0);
  EXPECT_EQ(file(999'999), 1'000'000u);
}

TEST_F(DescriptorsTest, ReopeningADescriptorTakesNoMoreMemory) {
  const Description* first = descriptors().opened(3, 1, 0);
  for (int i = 0; i < 100'000; ++i) {
    descriptors().closed(3);
    descriptors().opened(3, 1, 0);
  }
  EXPECT_EQ(descriptors().find(3), first);
}

TEST_F(DescriptorsTest, ADescriptionHeldByADuplicateSurvivesTheReuseOfItsDescriptor) {
  descriptors().opened(5, 42, 0);
  descriptors().duplicated(5, 9);
  descriptors().closed(5);
  descriptors().opened(5, 43, 0);
  EXPECT_EQ(file(5), 43u);
  EXPECT_EQ(file(9), 42u);
  descriptors().closed(9);
  descriptors().closed(5);
  descriptors().opened(5, 44, 0);
  EXPECT_EQ(file(5), 44u);
}

TEST_F(DescriptorsTest, OpeningADescriptorWhoseCloseWasMissedReplacesIt) {
  descriptors().opened(5, 42, 0);
  descriptors().opened(5, 43, 0);
  EXPECT_EQ(file(5), 43u);
  descriptors().closed(5);
  EXPECT_EQ(file(5), 0u);
}

TEST_F(DescriptorsTest, AfterAForkTheKernelIsAskedForThePosition) {
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  descriptors().opened(fd, 1, 0);
  descriptors().shared_with_child();
  lseek(fd, 1000, SEEK_SET);
  EXPECT_EQ(descriptors().moved_from(*descriptors().find(fd), fd, 100), 900u);
  close(fd);
}

TEST_F(DescriptorsTest, APipeHasNoPosition) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  descriptors().opened(ends[0], 1, kPositionUnknown);
  EXPECT_EQ(descriptors().moved_from(*descriptors().find(ends[0]), ends[0], 1), kNoPosition);
  EXPECT_NE(descriptors().find(ends[0])->flags.load() & kNotSeekable, 0u);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(DescriptorsTest, ThreadsThatOpenAndCloseDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        const int fd = 10 + t * 2;
        const auto number = static_cast<uint32_t>(t * 100'000 + i + 1);
        descriptors().opened(fd, number, 0);
        descriptors().duplicated(fd, fd + 1);
        descriptors().closed(fd);
        if (file(fd + 1) != number) ++wrong;
        descriptors().closed(fd + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace millrace::hook
