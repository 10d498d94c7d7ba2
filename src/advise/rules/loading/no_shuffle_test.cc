#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Epochs over files in an order that `seed` draws, in twelve steps.
analyze::Profile epochs_of_files(int64_t epochs, uint64_t (*seed)(uint64_t epoch),
                                 size_t files = 1200) {
  JobSketch job;
  Rank& rank = job.rank();
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    rank.epoch(epoch, [&] {
      const auto order = shuffled(files, seed(static_cast<uint64_t>(epoch)));
      for (size_t step = 0; step < 12; ++step) {
        rank.batch({.compute = 200ms, .readers = 1}, [&](Team& team) {
          for (size_t i = step * files / 12; i < (step + 1) * files / 12; ++i) {
            team.next().read_file(fmt::format("/data/{:04}.npy", order[i]),
                                  {.size = 2 * kMiB, .takes = 300us});
          }
        });
      }
    });
  }
  return job.profile();
}

TEST(NoShuffle, TheSameOrderEveryEpoch) {
  const analyze::Profile profile = epochs_of_files(3, [](uint64_t) { return uint64_t{5}; });
  ASSERT_THAT(rules_found(profile), ElementsAre("no-shuffle"));
  const Finding finding = advise(profile, {}).front();
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.gain.saved_ns, 0u);
}

TEST(NoShuffle, AFewShardsInOneOrderAreCertainAfterThreeEpochs) {
  const auto seed = [](uint64_t) { return uint64_t{5}; };
  EXPECT_THAT(rules_found(epochs_of_files(3, seed, 24)), ElementsAre("no-shuffle"));
  EXPECT_THAT(rules_found(epochs_of_files(2, seed, 24)), IsEmpty());
}

TEST(NoShuffle, ANewOrderEveryEpochIsNotReported) {
  EXPECT_THAT(rules_found(epochs_of_files(3, [](uint64_t epoch) { return epoch; })), IsEmpty());
}

TEST(NoShuffle, OneEpochIsNotEnough) {
  EXPECT_THAT(rules_found(epochs_of_files(1, [](uint64_t) { return uint64_t{5}; })), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
