#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::Contains;
using testing::Not;

TEST(TooManyWorkers, AreMoreThanTwiceTheCores) {
  EXPECT_EQ(first_rule(job_with_workers(16), {.cores = 4}), "too-many-workers");
  EXPECT_THAT(rules_found(job_with_workers(8), {.cores = 4}), Not(Contains("too-many-workers")));
  Profile reading = job_with_workers(16);  // they wait for storage and need no core
  reading.loading.read_ns = reading.loading.work_ns;
  reading.loading.other_ns = 0;
  EXPECT_THAT(rules_found(reading, {.cores = 4}), Not(Contains("too-many-workers")));
}

}  // namespace
}  // namespace millrace::advise
