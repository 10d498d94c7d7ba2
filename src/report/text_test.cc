#include "report/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::report {
namespace {

using testing::HasSubstr;

TEST(ReportText, NamesCallsWhoseNamesBeginLikeAnother) {
  analyze::Profile profile;
  profile.job.ranks = 1;
  profile.job.wall_ns = profile.time.mean.wall_ns = 10'000'000'000;
  profile.time.mean.idle_ns = 3'000'000'000;
  for (const char* name : {"readdir", "read", "openat", "open"}) {
    profile.stalls.push_back(
        {.phase = "in training", .name = name, .count = 1, .stall_ns = 500'000'000});
  }
  EXPECT_THAT(report_text(profile, {}, {.columns = 200}),
              HasSubstr("stopped 2 s for readdir, read, openat"));
}

}  // namespace
}  // namespace millrace::report
