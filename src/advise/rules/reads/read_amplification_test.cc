#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Every sample of a file, 256 KiB each, is read `times` per epoch.
analyze::Profile samples_read(uint64_t times) {
  constexpr uint64_t kSamples = 256;
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 600ms}, [&](Team& team) {
      for (int file = 0; file < 8; ++file) {
        const std::string path = fmt::format("/data/{}.h5", file);
        Hand& hand = team.next();
        hand.open(path, kSamples * 256 * kKiB);
        for (const uint64_t sample : shuffled(kSamples, 7)) {
          for (uint64_t i = 0; i < times; ++i) {
            hand.read(path, sample * 256 * kKiB, 256 * kKiB, 2ms);
          }
        }
        hand.close(path);
      }
    });
  });
  return job.profile();
}

TEST(ReadAmplification, EachSampleTwice) {
  const analyze::Profile profile = samples_read(2);
  ASSERT_THAT(rules_found(profile), ElementsAre("read-amplification"));
  EXPECT_THAT(advise(profile, {}).front().title(), HasSubstr("2.0 times"));
}

TEST(ReadAmplification, EachSampleOnceIsNotReported) {
  EXPECT_THAT(rules_found(samples_read(1)), IsEmpty());
}

// HDF5 reads 1 MiB chunks and returns `used` bytes of each.
analyze::Profile chunks(uint64_t used) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 1s}, [&](Team& team) {
      for (uint64_t file = 0; file < 8; ++file) {
        const std::string path = fmt::format("/data/{}.h5", file);
        Hand& hand = team.next();
        hand.open(path, 256 * kMiB);
        for (uint64_t i = 0; i < 256; ++i) {
          const nanoseconds begin = hand.now;
          hand.read(path, i * kMiB, kMiB, 4ms);
          hand.now = begin;
          hand.transfer(wire::Call::kH5Dread, path, used, 4ms);
        }
        hand.close(path);
      }
    });
  });
  return job.profile();
}

TEST(ReadAmplification, ChunksOfWhichAQuarterIsUsed) {
  const analyze::Profile profile = chunks(256 * kKiB);
  ASSERT_THAT(rules_found(profile), ElementsAre("read-amplification"));
  EXPECT_THAT(advise(profile, {}).front().evidence[0].text, HasSubstr("25.0 % was used"));
}

TEST(ReadAmplification, ChunksOfWhichMostIsUsedAreNotReported) {
  EXPECT_THAT(rules_found(chunks(768 * kKiB)), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
