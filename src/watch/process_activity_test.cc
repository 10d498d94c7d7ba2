#include "watch/process_activity.h"

#include <gtest/gtest.h>

namespace millrace::watch {
namespace {

using trace::EventColumns;
using trace::NameIndex;
using trace::ThreadIndex;
using wire::Call;

constexpr uint32_t kPosixStdio = 0b110;

struct Given {
  Call call;
  uint64_t begin_ns = 0;
  uint64_t duration_ns = 0;
  int64_t result = 0;
  uint32_t tid = 1;
  uint32_t file = 5;
  uint64_t size = 0;
  uint64_t offset = wire::kNoOffset;
  uint32_t other_file = 0;
};

EventColumns columns(const std::vector<Given>& events) {
  EventColumns all;
  for (const Given& event : events) {
    all.begin_ns.push_back(event.begin_ns);
    all.duration_ns.push_back(event.duration_ns);
    all.call.push_back(event.call);
    all.file.push_back(NameIndex{event.file});
    all.offset.push_back(event.offset);
    all.size.push_back(event.size);
    all.result.push_back(event.result);
    all.error.push_back(0);
    all.thread.push_back(ThreadIndex{event.tid});
    all.detail.push_back(0);
    all.other_file.push_back(NameIndex{event.other_file});
    all.other_offset.push_back(wire::kNoOffset);
    all.flags.push_back(0);
  }
  return all;
}

class ProcessActivityTest : public testing::Test {
 protected:
  void add(const std::vector<Given>& events, WindowBounds window = {0, 1000}) {
    const auto role = [](NameIndex name) {
      return name == NameIndex{70}   ? Role::kBatchWait
             : name == NameIndex{71} ? Role::kFetch
                                     : Role::kNone;
    };
    activity_.add(columns(events), {kPosixStdio}, window, role, files_);
  }

  ProcessActivity activity_;
  FileActivities files_;
};

TEST_F(ProcessActivityTest, CountsCallsByKind) {
  add({{Call::kRead, 0, 10, 4096},
       {Call::kPread, 20, 30, 100},
       {Call::kWrite, 60, 5, 50},
       {Call::kOpenat, 70, 5, 3},
       {Call::kFstat, 80, 5, 0},
       {Call::kReaddir, 90, 5, 1},
       {Call::kClose, 100, 5, 0},
       {Call::kRead, 110, 5, -1}});
  const OperationKinds& kinds = activity_.operations();
  EXPECT_EQ(kinds.reads.count, 3u);
  EXPECT_EQ(kinds.reads.bytes, 4196u);
  EXPECT_EQ(kinds.reads.duration_max_ns, 30u);
  EXPECT_EQ(kinds.writes.bytes, 50u);
  EXPECT_EQ(kinds.opens.count, 1u);
  EXPECT_EQ(kinds.metadata.count, 2u);
  EXPECT_EQ(kinds.others.count, 1u);
  EXPECT_EQ(kinds.all().count, 8u);
}

TEST_F(ProcessActivityTest, ATransferReadsOneFileAndWritesTheOther) {
  add({{.call = Call::kSendfile, .duration_ns = 10, .result = 300, .file = 5, .other_file = 6}});
  EXPECT_EQ(activity_.operations().reads.bytes, 300u);
  EXPECT_EQ(activity_.operations().writes.bytes, 300u);
  EXPECT_EQ(activity_.operations().all().count, 1u);
  EXPECT_EQ(files_[5].read_bytes, 300u);
  EXPECT_EQ(files_[5].written_bytes, 0u);
  EXPECT_EQ(files_[6].written_bytes, 300u);
}

TEST_F(ProcessActivityTest, IgnoresOtherLevelsAndEventsThatAreNotCalls) {
  add({{Call::kMapped, 0, 10, 4096},
       {Call::kFork, 0, 10, 7},
       {Call::kMpiFileRead, 0, 10, 4096},
       {Call::kH5Dread, 0, 10, 4096}});
  EXPECT_EQ(activity_.operations().all().count, 0u);
  EXPECT_EQ(activity_.busy_ns(), 0u);
}

TEST_F(ProcessActivityTest, CountsTimeOnlyWithinTheWindow) {
  add({{Call::kRead, 0, 5'000, 1}, {Call::kRead, 5'500, 100, 1}}, {4'000, 6'000});
  EXPECT_EQ(activity_.busy_ns(), 1'100u);
  EXPECT_EQ(activity_.operations().reads.duration_max_ns, 5'000u);
}

TEST_F(ProcessActivityTest, ConcurrentCallsOfThreadsCountOnceAsTimeInIo) {
  add({{.call = Call::kRead, .begin_ns = 100, .duration_ns = 100, .tid = 1},
       {.call = Call::kRead, .begin_ns = 300, .duration_ns = 100, .tid = 1},
       {.call = Call::kRead, .begin_ns = 150, .duration_ns = 100, .tid = 2}});
  EXPECT_EQ(activity_.in_io_ns(), 250u);
  EXPECT_EQ(activity_.busy_ns(), 300u);
}

TEST_F(ProcessActivityTest, RegionsTellProgressAndWaiting) {
  add({{.call = Call::kRegion,
        .begin_ns = 100,
        .duration_ns = 50,
        .file = 70,
        .size = 2,
        .offset = 8},
       {.call = Call::kRegion,
        .begin_ns = 200,
        .duration_ns = 50,
        .file = 71,
        .size = wire::kNoEpoch},
       {.call = Call::kRegion,
        .begin_ns = 300,
        .duration_ns = 10,
        .file = 72,
        .size = 2,
        .offset = 9}});
  EXPECT_TRUE(activity_.has_batch_wait());
  EXPECT_EQ(activity_.batch_wait_ns(), 50u);
  EXPECT_EQ(activity_.fetch_ns(), 50u);
  EXPECT_EQ(activity_.progress().epoch, 2u);
  EXPECT_EQ(activity_.progress().step, 9u);
  EXPECT_EQ(activity_.operations().all().count, 0u);
}

TEST_F(ProcessActivityTest, ANewEpochHasNoStepUntilARegionNamesOne) {
  add({{.call = Call::kRegion, .begin_ns = 1, .size = 2, .offset = 8},
       {.call = Call::kMark, .begin_ns = 2, .size = 3}});
  EXPECT_EQ(activity_.progress().epoch, 3u);
  EXPECT_FALSE(activity_.progress().has_step);
}

TEST_F(ProcessActivityTest, ANewWindowResetsTheFiguresAndKeepsTheProgress) {
  add({{Call::kRead, 0, 10, 4096}, {.call = Call::kRegion, .begin_ns = 1, .size = 2, .offset = 8}});
  activity_.begin_window();
  EXPECT_EQ(activity_.operations().all().count, 0u);
  EXPECT_EQ(activity_.in_io_ns(), 0u);
  EXPECT_EQ(activity_.progress().epoch, 2u);
  EXPECT_EQ(activity_.calls_total(), 1u);
}

TEST(CountedLevels, DoNotContainEachOther) {
  EXPECT_EQ(counted_levels(0b111110, false).bits, 0b110u);
  EXPECT_EQ(counted_levels(0b111110, true).bits, 0b010u);
  EXPECT_EQ(counted_levels(0b111000, false).bits, 0b1000u);
  EXPECT_EQ(counted_levels(0b110000, false).bits, 0b10000u);
}

}  // namespace
}  // namespace millrace::watch
