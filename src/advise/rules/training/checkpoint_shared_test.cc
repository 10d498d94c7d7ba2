#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/shared_jobs.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::Contains;
using testing::Not;

const Machine kShared{.local_disk_bytes = 10 * kGiB, .checkpoint_storage = Storage::kParallel};

TEST(CheckpointShared, IsReportedIfALocalDiskHasRoom) {
  EXPECT_THAT(rules_found(training_with_checkpoints({}), kShared), Contains("checkpoint-shared"));
}

TEST(CheckpointShared, IsNotReportedWithoutRoomForTwo) {
  Machine machine = kShared;
  machine.local_disk_bytes = 2 * kGiB - 1;
  EXPECT_THAT(rules_found(training_with_checkpoints({}), machine),
              Not(Contains("checkpoint-shared")));
}

TEST(CheckpointShared, IsNotReportedIfAsFastAsALocalDisk) {
  EXPECT_THAT(rules_found(training_with_checkpoints({.takes = 1500ms}), kShared),
              Not(Contains("checkpoint-shared")));
}

}  // namespace
}  // namespace millrace::advise
