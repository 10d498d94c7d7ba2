#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Opens the file for each of `samples`, and reads one sample each time.
analyze::Profile opened_for_each_sample(uint64_t samples, nanoseconds opening) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 500ms}, [&](Team& team) {
      for (const uint64_t sample : shuffled(samples, 3)) {
        for (int file = 0; file < 32; ++file) {
          const std::string path = fmt::format("/data/{}.h5", file);
          Hand& hand = team.next();
          hand.open(path, samples * 256 * kKiB, opening);
          hand.read(path, sample * 256 * kKiB, 256 * kKiB, 2ms);
          hand.close(path);
        }
      }
    });
  });
  return job.profile();
}

TEST(RepeatedOpens, AFileOpenedForEverySample) {
  const analyze::Profile profile = opened_for_each_sample(100, 1ms);
  ASSERT_THAT(rules_found(profile), ElementsAre("repeated-opens"));
  EXPECT_THAT(advise(profile, {}).front().evidence[0].text, HasSubstr("100 times per epoch"));
}

TEST(RepeatedOpens, OncePerWorkerIsNotRepeated) {
  EXPECT_THAT(rules_found(opened_for_each_sample(31, 1ms)), IsEmpty());
}

// Fifty unmarked epochs, each of which opens and reads every file once.
TEST(RepeatedOpens, OncePerUnmarkedEpochIsNotRepeated) {
  JobSketch job;
  for (uint64_t epoch = 0; epoch < 50; ++epoch) {
    job.rank().batch({.compute = 50ms}, [&](Team& team) {
      for (const uint64_t file : shuffled(40, epoch)) {
        team.next().read_file(fmt::format("/data/{}.npz", file),
                              {.size = 8 * kMiB, .takes = 10ms, .opening = 10ms});
      }
    });
  }
  EXPECT_THAT(rules_found(job.profile()), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
