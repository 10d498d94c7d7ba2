#include "replay/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/io/file.h"
#include "replay/buffer.h"
#include "replay/replay.h"
#include "replay/testing/call_trace.h"

namespace millrace::replay {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using wire::Call;

class RunTest : public testing::Test {
 protected:
  RunResult replay(CallTrace& trace, const RunOptions& options = {}) {
    plan_ = trace.plan();
    auto prepared = prepare(plan_, {.onto = onto(), .only_existing = only_existing_});
    EXPECT_TRUE(prepared.ok()) << prepared.error().message();
    prepared_ = *std::move(prepared);
    auto result = run(plan_, prepared_, options);
    EXPECT_TRUE(result.ok()) << result.error().message();
    return *std::move(result);
  }
  std::string onto(std::string_view below = "") const {
    return (directory_.path() / "onto" / below).string();
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  bool only_existing_ = false;
  Plan plan_;
  Prepared prepared_;
};

TEST_F(RunTest, EveryCallIsMadeAndMeasured) {
  CallTrace trace({{.call = Call::kOpen, .file = "/d/a", .result = 3},
                   {.call = Call::kFstat, .file = "/d/a", .size = 100},
                   {.call = Call::kRead, .file = "/d/a", .offset = 0, .size = 64, .result = 64},
                   {.call = Call::kRead, .file = "/d/a", .offset = 64, .size = 64, .result = 36},
                   {.call = Call::kRead, .file = "/d/a", .offset = 100, .size = 64, .result = 0},
                   {.call = Call::kClose, .file = "/d/a"},
                   {.call = Call::kStat, .file = "/d/none", .result = -1}});
  const RunResult result = replay(trace);
  EXPECT_EQ(result.calls, 7u);
  EXPECT_EQ(result.failed_here(), 0u);
  const FunctionResult& read = result.functions.at(Call::kRead);
  EXPECT_EQ(read.calls, 3u);
  EXPECT_EQ(read.replayed.bytes, 100u);
  EXPECT_EQ(read.recorded.bytes, 100u);
  EXPECT_EQ(read.recorded.time_ns, 150u);
  EXPECT_EQ(read.short_count, 0u);
  EXPECT_EQ(result.functions.at(Call::kStat).failed_in_both, 1u);
}

TEST_F(RunTest, WritesCreateWhatTheTraceCreated) {
  const uint32_t create = O_RDWR | O_CREAT | O_TRUNC;
  CallTrace trace(
      {{.call = Call::kMkdir, .file = "/d/out"},
       {.call = Call::kOpenat, .file = "/d/out/tmp", .result = 3, .detail = create},
       {.call = Call::kWrite, .file = "/d/out/tmp", .offset = 0, .size = 5000, .result = 5000},
       {.call = Call::kPwrite, .file = "/d/out/tmp", .offset = 9000, .size = 10, .result = 10},
       {.call = Call::kFsync, .file = "/d/out/tmp"},
       {.call = Call::kClose, .file = "/d/out/tmp"},
       {.call = Call::kRename, .file = "/d/out/tmp", .other_file = "/d/out/final"},
       {.call = Call::kOpen, .file = "/d/out/final", .result = 3},
       {.call = Call::kOpen, .file = "/d/copy", .result = 4, .detail = create},
       {.call = Call::kSendfile,
        .file = "/d/out/final",
        .offset = 0,
        .size = 9010,
        .result = 9010,
        .other_file = "/d/copy",
        .other_offset = 0},
       {.call = Call::kFtruncate, .file = "/d/copy", .size = 8000},
       {.call = Call::kOpen, .file = "/d/gone", .result = 5, .detail = create},
       {.call = Call::kUnlink, .file = "/d/gone"}});
  const RunResult result = replay(trace);
  EXPECT_EQ(result.failed_here(), 0u) << result.failures.front();
  EXPECT_EQ(fs::file_size(onto("out/final")), 9010u);
  EXPECT_EQ(fs::file_size(onto("copy")), 8000u);
  EXPECT_FALSE(fs::exists(onto("out/tmp")));
  EXPECT_FALSE(fs::exists(onto("gone")));
  std::ofstream(onto("out/mine")) << "text";
  EXPECT_THAT(clean(plan_, prepared_, Keep::kInputs), ElementsAre("out/mine"));
  EXPECT_EQ(*read_file(onto("out/mine")), "text");
  EXPECT_FALSE(fs::exists(onto("out/final")));
  fs::remove_all(onto("out"));
  EXPECT_THAT(clean(plan_, prepared_, Keep::kNothing), IsEmpty());
  EXPECT_FALSE(fs::exists(onto()));
}

TEST_F(RunTest, StreamsAndDirectoriesAreReplayed) {
  CallTrace trace({{.call = Call::kFopen, .file = "/d/a"},
                   {.call = Call::kFread, .file = "/d/a", .offset = 0, .size = 10, .result = 10},
                   {.call = Call::kFgetc, .file = "/d/a", .offset = 50, .result = 1},
                   {.call = Call::kFclose, .file = "/d/a"},
                   {.call = Call::kFopen, .file = "/d/w", .detail = O_WRONLY | O_CREAT | O_TRUNC},
                   {.call = Call::kFprintf, .file = "/d/w", .offset = 0, .result = 12},
                   {.call = Call::kFclose, .file = "/d/w"},
                   {.call = Call::kOpendir, .file = "/d"},
                   {.call = Call::kReaddir, .file = "/d", .result = 1},
                   {.call = Call::kReaddir, .file = "/d", .result = 1},
                   {.call = Call::kClosedir, .file = "/d"},
                   {.call = Call::kScandir, .file = "/d", .result = 3}});
  const RunResult result = replay(trace);
  EXPECT_EQ(result.failed_here(), 0u) << result.failures.front();
  EXPECT_EQ(result.calls, 12u);
  EXPECT_EQ(result.functions.at(Call::kFread).replayed.bytes, 10u);
  EXPECT_EQ(result.functions.at(Call::kFgetc).replayed.bytes, 1u);
  EXPECT_EQ(fs::file_size(onto("w")), 12u);
}

TEST_F(RunTest, MappedFilesAreReadWithoutAFault) {
  CallTrace trace(
      {{.call = Call::kStat, .file = "/d/a", .size = 5000},
       {.call = Call::kMapped, .file = "/d/a", .offset = 0, .size = 8192, .result = 8192}});
  const RunResult result = replay(trace);
  EXPECT_EQ(result.failed_here(), 0u);
  EXPECT_EQ(result.functions.at(Call::kMapped).calls, 1u);
}

TEST_F(RunTest, AFileWithoutItsCreationIsPreparedInADirectoryOfTheTrace) {
  CallTrace trace({{.call = Call::kMkdir, .file = "/d/new"},
                   {.call = Call::kOpen, .file = "/d/new/a"},
                   {.call = Call::kRead, .file = "/d/new/a", .size = 9, .result = 9},
                   {.call = Call::kStat, .file = "/d/b"}});
  const RunResult result = replay(trace);
  EXPECT_EQ(result.failed_here(), 0u) << result.failures.front();
  EXPECT_EQ(result.functions.at(Call::kRead).replayed.bytes, 9u);
}

TEST_F(RunTest, AFailureOnlyHereIsReported) {
  CallTrace trace({{.call = Call::kStat, .file = "/d/a", .size = 5},
                   {.call = Call::kUnlink, .file = "/d/a"},
                   {.call = Call::kUnlink, .file = "/d/a"}});
  const RunResult result = replay(trace);
  EXPECT_EQ(result.failed_here(), 1u);
  EXPECT_THAT(result.failures.at(0), HasSubstr("unlink of " + onto("a")));
  const std::string text =
      report_text({.title = "t", .plan = plan_, .prepared = prepared_, .result = result}, {});
  EXPECT_THAT(text, HasSubstr("1 call FAILED that had succeeded"));
}

TEST_F(RunTest, CallsThatFailedAndWouldChangeSomethingAreNotMade) {
  CallTrace trace(
      {{.call = Call::kStat, .file = "/d/a", .size = 100},
       {.call = Call::kOpen, .file = "/d/a", .result = -1, .detail = O_WRONLY | O_TRUNC},
       {.call = Call::kCreat, .file = "/d/a", .result = -1},
       {.call = Call::kFopen, .file = "/d/a", .result = -1, .detail = O_RDWR},
       {.call = Call::kTruncate, .file = "/d/a", .size = 0, .result = -1},
       {.call = Call::kWrite, .file = "/d/a", .offset = 0, .size = 5, .result = -1},
       {.call = Call::kFtruncate, .file = "/d/a", .size = 0, .result = -1},
       {.call = Call::kUnlink, .file = "/d/a", .result = -1},
       {.call = Call::kRename, .file = "/d/a", .result = -1, .other_file = "/d/b"},
       {.call = Call::kMkdir, .file = "/d/new", .result = -1},
       {.call = Call::kOpen, .file = "/d/none", .result = -1}});
  const RunResult result = replay(trace);
  EXPECT_EQ(plan_.skipped.failed, 9u);
  EXPECT_EQ(result.calls, 2u);
  EXPECT_EQ(result.functions.at(Call::kOpen).failed_in_both, 1u);
  EXPECT_EQ(fs::file_size(onto("a")), 100u);
  EXPECT_FALSE(fs::exists(onto("b")));
}

TEST_F(RunTest, AWriteMovesNoMoreThanInTheJob) {
  const uint32_t create = O_RDWR | O_CREAT;
  CallTrace trace(
      {{.call = Call::kOpen, .file = "/d/a", .result = 3, .detail = create},
       {.call = Call::kWrite, .file = "/d/a", .offset = 0, .size = 1 << 20, .result = 7},
       {.call = Call::kOpen, .file = "/d/b", .result = 4, .detail = create},
       {.call = Call::kCopyFileRange,
        .file = "/d/a",
        .offset = 0,
        .size = 1 << 20,
        .result = 3,
        .other_file = "/d/b",
        .other_offset = 0}});
  replay(trace);
  EXPECT_EQ(fs::file_size(onto("a")), 7u);
  EXPECT_EQ(fs::file_size(onto("b")), 3u);
}

TEST_F(RunTest, AFileThatWasThereIsOnlyRead) {
  fs::create_directories(onto());
  std::ofstream(onto("a")) << "mine";
  only_existing_ = true;
  CallTrace trace({{.call = Call::kStat, .file = "/d/a", .size = 4},
                   {.call = Call::kOpen, .file = "/d/a", .result = 3, .detail = O_RDWR | O_CREAT},
                   {.call = Call::kRead, .file = "/d/a", .offset = 0, .size = 4, .result = 4},
                   {.call = Call::kClose, .file = "/d/a"},
                   {.call = Call::kFopen, .file = "/d/a", .detail = O_RDWR},
                   {.call = Call::kFread, .file = "/d/a", .offset = 0, .size = 4, .result = 4}});
  const RunResult result = replay(trace);
  EXPECT_EQ(result.failed_here(), 0u) << result.failures.front();
  EXPECT_EQ(result.functions.at(Call::kFread).replayed.bytes, 4u);
  EXPECT_EQ(*read_file(onto("a")), "mine");
}

TEST_F(RunTest, AHugeMappingEndsWithItsFile) {
  CallTrace trace({{.call = Call::kStat, .file = "/d/a", .size = 5000},
                   {.call = Call::kMapped,
                    .file = "/d/a",
                    .offset = 0,
                    .size = uint64_t{1} << 62,
                    .result = int64_t{1} << 62}});
  EXPECT_EQ(replay(trace).calls, 2u);
}

TEST_F(RunTest, ThreadsWaitForWhatOthersCreate) {
  std::vector<Recorded> calls;
  for (int i = 0; i < 50; ++i) {
    static std::vector<std::string> names(50);
    names[i] = "/d/file" + std::to_string(i);
    const std::string_view name = names[i];
    calls.push_back({.call = Call::kOpen,
                     .file = name,
                     .result = 3,
                     .detail = O_RDWR | O_CREAT | O_EXCL,
                     .thread = 0});
    calls.push_back(
        {.call = Call::kWrite, .file = name, .offset = 0, .size = 10, .result = 10, .thread = 0});
    calls.push_back(
        {.call = Call::kPread, .file = name, .offset = 0, .size = 10, .result = 10, .thread = 2});
    calls.push_back({.call = Call::kClose, .file = name, .thread = 0});
    calls.push_back({.call = Call::kStat, .file = name, .size = 10, .thread = 1});
    calls.push_back({.call = Call::kUnlink, .file = name, .thread = 3});
    calls.push_back({.call = Call::kStat, .file = name, .result = -1, .thread = 1});
  }
  CallTrace trace(calls);
  const RunResult result = replay(trace);
  EXPECT_EQ(result.failed_here(), 0u) << result.failures.front();
  EXPECT_EQ(result.functions.at(Call::kStat).failed_in_both, 50u);
  EXPECT_EQ(result.calls, calls.size());
}

TEST_F(RunTest, AsRecordedCallsDoNotBeginEarly) {
  CallTrace trace({{.call = Call::kStat, .file = "/d/a", .begin_ns = 1000},
                   {.call = Call::kStat, .file = "/d/a", .begin_ns = 20'001'000}});
  const RunResult result = replay(trace, {.timing = Timing::kAsRecorded});
  EXPECT_EQ(result.lateness_ns.count(), 2u);
  EXPECT_GE(result.elapsed_ns + result.lateness_ns.max(), 20'000'000u);
}

TEST_F(RunTest, AStopEndsTheReplay) {
  CallTrace trace({{.call = Call::kOpen, .file = "/d/a", .result = 3, .begin_ns = 1000},
                   {.call = Call::kRead,
                    .file = "/d/a",
                    .offset = 0,
                    .size = 1,
                    .result = 1,
                    .begin_ns = 3'600'000'000'000}});
  const std::atomic<bool> stop = true;
  const RunResult result = replay(trace, {.timing = Timing::kAsRecorded, .stop = &stop});
  EXPECT_TRUE(result.is_interrupted);
  EXPECT_EQ(result.calls, 0u);
}

TEST(Buffer, LargeBuffersRepeatASmallOne) {
  const auto buffer = Buffer::create({.size_bytes = uint64_t{3} << 30, .random = true});
  ASSERT_TRUE(buffer.ok()) << buffer.error().message();
  EXPECT_GE(buffer->size_bytes(), size_t{3} << 30);
  EXPECT_EQ(buffer->data()[5], buffer->data()[Buffer::kMemoryMax + 5]);
}

}  // namespace
}  // namespace millrace::replay
