// Rules about checkpoints: stalls, small writes, shared storage.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

struct Saving {
  uint32_t ranks = 4;
  uint64_t bytes = kGiB;
  uint64_t piece = 16 * kMiB;
  nanoseconds takes = 4s;  // in total, by rank 0; the others wait
};

// Two epochs of ten seconds, each followed by a checkpoint.
analyze::Profile training_with_checkpoints(const Saving& saving) {
  JobSketch job(saving.ranks);
  const auto pieces = static_cast<int64_t>(saving.bytes / saving.piece);
  for (Rank& rank : job.ranks()) {
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      rank.epoch(epoch, [&] {
        rank.compute(10s);
        if (rank.index() != 0) {
          rank.main.now += saving.takes;
          return;
        }
        rank.within("checkpoint", [&] {
          const std::string path = fmt::format("/shared/run/checkpoint-{}.pt", epoch);
          for (int64_t i = 0; i < pieces; ++i) {
            rank.main.write(path, static_cast<uint64_t>(i) * saving.piece, saving.piece,
                            saving.takes / pieces);
          }
        });
      });
    }
  }
  return job.profile();
}

TEST(CheckpointStall, ThreeRanksWaitForOne) {
  const analyze::Profile profile = training_with_checkpoints({});
  ASSERT_THAT(rules_found(profile), ElementsAre("checkpoint-stall"));
  const Finding finding = advise(profile, {}).front();
  EXPECT_THAT(finding.title(), HasSubstr("3 ranks wait while one writes"));
  EXPECT_NEAR(finding.gain.share, 0.25, 0.03);
}

TEST(CheckpointStall, ASingleRankStopsTraining) {
  const analyze::Profile profile = training_with_checkpoints({.ranks = 1});
  ASSERT_THAT(rules_found(profile), ElementsAre("checkpoint-stall"));
  EXPECT_THAT(advise(profile, {}).front().title(), HasSubstr("training stops"));
}

TEST(CheckpointStall, IgnoresFourPercent) {
  EXPECT_THAT(rules_found(training_with_checkpoints({.takes = 500ms})), IsEmpty());
}

TEST(CheckpointSmallWrites, ReportsSixteenKib) {
  EXPECT_THAT(rules_found(training_with_checkpoints({.piece = 16 * kKiB})),
              UnorderedElementsAre("checkpoint-stall", "checkpoint-small-writes"));
}

TEST(CheckpointSmallWrites, IgnoresSixtyFourKib) {
  EXPECT_THAT(rules_found(training_with_checkpoints({.piece = 64 * kKiB})),
              Not(Contains("checkpoint-small-writes")));
}

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
