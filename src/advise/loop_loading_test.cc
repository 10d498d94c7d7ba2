// Tests that a loop that reads its data is judged as a loader is.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"
#include "analyze/scan.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::Contains;
using testing::Not;

TEST(LoopLoading, ALoopThatReadsItsDataIsALoader) {
  Profile profile = waiting_job(".jpg");
  profile.loading = {};
  profile.time.basis = analyze::WaitBasis::kIoTime;
  profile.time.mean.wait_ns = 0;
  profile.files = {data_file("/data/1.jpg", kMiB, 4)};
  profile.functions = {function("read", wire::CallKind::kRead)};
  profile.stalls = {stall("read", "/data")};
  profile.stalls[0].time_ns = kSecondNs / 2;
  profile.stalls[0].stall_ns = 6 * kSecondNs;
  EXPECT_EQ(first_rule(profile), "decode-bound");
  EXPECT_THAT(rules_found(profile), Not(Contains("loop-stall")));
  // Reads of something else are not loading.
  profile.stalls[0].directory = "/home";
  EXPECT_EQ(first_rule(profile), "loop-stall");
}

// A loop that reads ten files for each step, with only these regions marked.
Profile marked_loop(const std::set<std::string>& marks) {
  using std::chrono::microseconds;
  const TemporaryDirectory directory = *TemporaryDirectory::create();
  analyze::TraceBuilder job(directory.path() / "t.mrt");
  const analyze::Program program = job.program({});
  const auto mark = [&](const std::string& name, microseconds at, microseconds takes,
                        int64_t step) {
    if (marks.contains(name)) program.region(name, {.at = at, .takes = takes, .step = step});
  };
  microseconds now{0};
  for (int step = 0; step < 120; ++step) {
    const microseconds begin = now;
    for (int i = 0; i < 10; ++i) {
      const std::string file = fmt::format("/data/{}.bin", (step * 10 + i) * 7919 % 400);
      program.open(file, {.at = now, .takes = 5us});
      program.read(file, {.at = now + 10us, .takes = 5us, .offset = 0, .size = 6000});
      program.close(file, {.at = now + 20us, .takes = 2us});
      mark("read", now, 200us, step);
      now += 200us;
    }
    mark("fetch", begin, now - begin, step);
    mark("batch_wait", begin, now - begin, step);
    mark("compute", now, 1000us, step);
    now += 1000us;
  }
  return analyze::profile_of(job.finish());
}

TEST(Marks, TheSameLoopGetsTheSameDiagnosisWhicheverRegionsAreMarked) {
  const std::set<std::string> marked[] = {{"compute"},
                                          {"fetch", "compute"},
                                          {"batch_wait"},
                                          {"batch_wait", "compute"},
                                          {"batch_wait", "fetch", "compute"},
                                          {"batch_wait", "fetch", "read", "compute"}};
  for (const std::set<std::string>& marks : marked) {
    const Finding finding = first(marked_loop(marks));
    EXPECT_EQ(finding.rule, "many-small-files") << testing::PrintToString(marks);
    EXPECT_NEAR(finding.gain.share, 0.6, 0.1) << testing::PrintToString(marks);
  }
}

}  // namespace
}  // namespace millrace::advise
