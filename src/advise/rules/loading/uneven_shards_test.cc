#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/shared_jobs.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(UnevenShards, OneRankHasAThirdMore) {
  const analyze::Profile profile = ranks_read({{0, 37}, {37, 21}, {58, 21}, {79, 21}}, 1, 100ms);
  ASSERT_THAT(rules_found(profile), ElementsAre("uneven-shards"));
  EXPECT_THAT(advise(profile, {}).front().title(), HasSubstr("rank 0"));
}

TEST(UnevenShards, AFifthMoreIsNotReported) {
  EXPECT_THAT(rules_found(ranks_read({{0, 30}, {30, 24}, {54, 23}, {77, 23}}, 1, 100ms)),
              IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
