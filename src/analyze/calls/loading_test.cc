#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>

#include "analyze/scan.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using namespace std::chrono_literals;

class LoadingTest : public testing::Test {
 protected:
  static constexpr uint64_t kMs = 1'000'000;

  LoadingTest() : directory_(*TemporaryDirectory::create()) {}

  Loading loading() { return profile_of(job_.finish()).loading; }

  TemporaryDirectory directory_;
  TraceBuilder job_{directory_.path() / "job.mrt"};
};

TEST_F(LoadingTest, TheTimeOfMakingABatchIsDividedIntoItsParts) {
  const Program program = job_.program({});
  program.region("batch_wait", {.at = 0ms, .takes = 100ms, .epoch = 0, .step = 0});
  program.region("fetch", {.at = 1ms, .takes = 90ms});
  program.region("read", {.at = 1ms, .takes = 60ms});
  program.open("/data/a.h5", {.at = 2ms, .takes = 3ms});
  program.call(wire::Call::kStat, "/data/a.h5", {.at = 5ms, .takes = 2ms});
  program.call(wire::Call::kGetdents64, "/data", {.at = 7ms, .takes = 1ms});
  program.call(wire::Call::kH5Dread, "/data/a.h5", {.at = 10ms, .takes = 20ms, .size = 500});
  program.read("/data/a.h5", {.at = 12ms, .takes = 5ms, .size = 4096});
  program.region("transform", {.at = 40ms, .takes = 15ms});
  program.read("/data/mask", {.at = 42ms, .takes = 4ms, .size = 10});
  program.region("decode", {.at = 56ms, .takes = 3ms});
  program.region("decompress", {.at = 60ms, .takes = 2ms});
  program.region("parse", {.at = 62ms, .takes = 1ms});
  program.region("collate", {.at = 70ms, .takes = 10ms});
  program.region("compute", {.at = 100ms, .takes = 50ms, .epoch = 0, .step = 0});
  program.read("/data/other", {.at = 160ms, .takes = 5ms, .size = 10});  // in no fetch
  const Loading found = loading();
  EXPECT_EQ(found.work_ns, 90 * kMs);
  EXPECT_EQ(found.read_ns, 9 * kMs);
  EXPECT_EQ(found.metadata_ns, 6 * kMs);
  EXPECT_EQ(found.library_ns, 15 * kMs);
  EXPECT_EQ(found.transform_ns, 11 * kMs);
  EXPECT_EQ(found.collate_ns, 10 * kMs);
  EXPECT_EQ(found.other_ns, 39 * kMs);
  EXPECT_EQ(found.decode_ns, 3 * kMs);
  EXPECT_EQ(found.decompress_ns, 2 * kMs);
  EXPECT_EQ(found.parse_ns, 1 * kMs);
  EXPECT_EQ(found.opens, 1u);
  EXPECT_EQ(found.stats, 1u);
  EXPECT_EQ(found.lists, 1u);
  EXPECT_EQ(found.reads, 2u);
  EXPECT_EQ(found.library_reads, 1u);
  EXPECT_EQ(found.library_bytes, 500u);
  EXPECT_EQ(found.batches, 1u);
  EXPECT_EQ(found.samples, 1u);
  EXPECT_EQ(found.threads, 0u);
  EXPECT_EQ(found.fetch_mean_ns, 90 * kMs);
  EXPECT_EQ(found.in_flight, 1.0);
}

TEST_F(LoadingTest, OpensOfFilesThatDoNotExistAreNoOpens) {
  const Program program = job_.program({});
  program.region("fetch", {.at = 1ms, .takes = 90ms});
  program.call(wire::Call::kStat, "/data/a.yaml", {.at = 2ms, .takes = 2ms, .error = ENOENT});
  program.call(wire::Call::kStat, "/data/b.yaml", {.at = 5ms, .takes = 2ms, .error = EACCES});
  program.call(wire::Call::kOpen, "/data/a.json", {.at = 8ms, .takes = 2ms, .error = ENOENT});
  program.open("/data/b.json", {.at = 11ms, .takes = 2ms});
  const Loading found = loading();
  EXPECT_EQ(found.opens, 1u);
  EXPECT_EQ(found.stats, 3u);
  EXPECT_EQ(found.missing, 2u);
}

TEST_F(LoadingTest, WorkersThatFetchAtTheSameTimeAreInFlightTogether) {
  const Program program = job_.program({});
  program.region("batch_wait", {.at = 0ms, .takes = 40ms, .epoch = 0, .step = 0});
  program.region("compute", {.at = 40ms, .takes = 50ms, .epoch = 0, .step = 0});
  for (int i = 0; i < 2; ++i) {
    const Program worker = job_.program({.parent_pid = program.pid()});
    worker.region("fetch",
                  {.at = 5ms + 10ms * i, .takes = 20ms, .epoch = 0, .tags = {{"samples", 8}}});
  }
  const Loading found = loading();
  EXPECT_EQ(found.threads, 2u);
  EXPECT_EQ(found.batches, 2u);
  EXPECT_EQ(found.samples, 16u);
  EXPECT_EQ(found.work_ns, 40 * kMs);
  EXPECT_DOUBLE_EQ(found.in_flight, 40.0 / 30.0);
  EXPECT_EQ(found.fetch_mean_ns, 20 * kMs);
}

TEST_F(LoadingTest, AJobWithoutRegionsLoadsNothing) {
  job_.program({}).read("/data/a", {.at = 0ms, .takes = 1ms, .size = 1});
  const Loading found = loading();
  EXPECT_EQ(found.work_ns, 0u);
  EXPECT_EQ(found.reads, 0u);
  EXPECT_EQ(found.in_flight, 0);
}

}  // namespace
}  // namespace millrace::analyze
