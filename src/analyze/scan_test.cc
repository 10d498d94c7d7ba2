#include "analyze/scan.h"

#include <gtest/gtest.h>

#include <chrono>

#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::analyze {
namespace {

using namespace std::chrono_literals;

class ScanTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryDirectory::create();
    ASSERT_TRUE(made.ok());
    directory_.emplace(*std::move(made));
  }
  std::string path() const { return (directory_->path() / "t.mrt").string(); }

  std::optional<TemporaryDirectory> directory_;
};

TEST_F(ScanTest, CountsCallsBytesAndFiles) {
  TraceBuilder job(path());
  const Program program = job.program({});
  program.open("/data/a", {.at = 0ms});
  program.read("/data/a", {.at = 1ms, .takes = 1ms, .offset = 0, .size = 4096});
  program.read("/data/a", {.at = 3ms, .takes = 3ms, .offset = 4096, .size = 4096});
  program.close("/data/a", {.at = 7ms, .takes = 1ms});
  const trace::Trace trace = job.finish();
  const Profile profile = profile_of(trace);
  EXPECT_EQ(profile.job.events, 4u);
  EXPECT_EQ(profile.job.wall_ns, 8'000'000u);
  EXPECT_EQ(profile.job.bytes_read, 8192u);
  EXPECT_EQ(profile.job.dataset_files, 1u);
  ASSERT_FALSE(profile.functions.empty());
  EXPECT_EQ(profile.functions[0].name, "pread");
  EXPECT_EQ(profile.functions[0].latency_ns.max, 3'000'000u);
  EXPECT_EQ(profile.reads.counts.consecutive, 1u);
  ASSERT_EQ(profile.files.size(), 1u);
  EXPECT_EQ(profile.files[0].unique_bytes_read, 8192u);
}

TEST_F(ScanTest, CoresAreThoseOfTheHostWithTheFewest) {
  TraceBuilder job(path());
  job.program({.host = "a", .cores = 8}).open("/data/a", {.at = 0ms});
  job.program({.host = "b", .cores = 2}).open("/data/a", {.at = 0ms});
  job.program({.host = "of an older build"}).open("/data/a", {.at = 0ms});
  const trace::Trace trace = job.finish();
  EXPECT_EQ(profile_of(trace).job.cores, 2u);
  for (const trace::Session& session : trace.sessions()) EXPECT_EQ(session.levels, 0x3eu);
}

}  // namespace
}  // namespace millrace::analyze
