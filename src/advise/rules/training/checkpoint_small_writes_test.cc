#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/shared_jobs.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::Contains;
using testing::Not;
using testing::UnorderedElementsAre;

TEST(CheckpointSmallWrites, ReportsSixteenKib) {
  EXPECT_THAT(rules_found(training_with_checkpoints({.piece = 16 * kKiB})),
              UnorderedElementsAre("checkpoint-stall", "checkpoint-small-writes"));
}

TEST(CheckpointSmallWrites, IgnoresSixtyFourKib) {
  EXPECT_THAT(rules_found(training_with_checkpoints({.piece = 64 * kKiB})),
              Not(Contains("checkpoint-small-writes")));
}

}  // namespace
}  // namespace millrace::advise
