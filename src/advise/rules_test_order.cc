// Rules about the order of samples, random access and decoding.
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

enum class Within { kStreamed, kJumping, kShuffled };

// Three epochs over 20 files of 80 samples in a new order, eight samples per step.
analyze::Profile epochs_of_shards(Within within, uint64_t samples_per_step = 8) {
  constexpr uint64_t kSamples = 80;
  JobSketch job;
  Rank& rank = job.rank();
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    rank.epoch(epoch, [&] {
      for (const uint64_t file : shuffled(20, static_cast<uint64_t>(epoch) + 50)) {
        const std::string path = fmt::format("/data/{:02}.rec", file);
        auto order = shuffled(kSamples, static_cast<uint64_t>(epoch) * 100 + file);
        if (within != Within::kShuffled) std::sort(order.begin(), order.end());
        rank.main.open(path, kSamples * kMiB);
        for (uint64_t step = 0; step < kSamples / samples_per_step; ++step) {
          rank.batch({.compute = 100ms, .readers = 1}, [&](Team& team) {
            for (uint64_t i = 0; i < samples_per_step; ++i) {
              const uint64_t at = order[step * samples_per_step + i] * kMiB;
              // With an index, reads skip the bytes between samples.
              const uint64_t size = within == Within::kStreamed ? kMiB : kMiB - 4096;
              team.next().read(path, at, size, 200us);
            }
          });
        }
        rank.main.close(path);
      }
    });
  }
  return job.profile();
}

TEST(FileShuffle, SamplesOfAFileKeepTheirOrder) {
  const analyze::Profile profile = epochs_of_shards(Within::kJumping);
  ASSERT_THAT(rules_found(profile), ElementsAre("file-shuffle"));
  EXPECT_EQ(advise(profile, {}).front().severity, Severity::kWarning);
}

TEST(FileShuffle, StreamedFilesAreANoteBecauseABufferMayShuffle) {
  const analyze::Profile profile = epochs_of_shards(Within::kStreamed);
  ASSERT_THAT(rules_found(profile), ElementsAre("file-shuffle"));
  EXPECT_EQ(advise(profile, {}).front().severity, Severity::kNote);
}

TEST(FileShuffle, SamplesInANewOrderAreNotReported) {
  EXPECT_THAT(rules_found(epochs_of_shards(Within::kShuffled)), IsEmpty());
}

TEST(FileShuffle, OneFilePerStepHasNoInnerOrder) {
  EXPECT_THAT(rules_found(epochs_of_shards(Within::kStreamed, 80)), IsEmpty());
}

// Samples of 128 KiB from files of 100 MiB, read in order or not; each read takes `takes`.
analyze::Profile samples_of_large_files(bool random, nanoseconds takes) {
  constexpr uint64_t kSamples = 800;
  JobSketch job;
  Rank& rank = job.rank();
  rank.epoch(0, [&] {
    rank.batch({.compute = 500ms}, [&](Team& team) {
      for (int file = 0; file < 4; ++file) {
        const std::string path = fmt::format("/data/{}.bin", file);
        auto order = shuffled(kSamples, 9);
        if (!random) std::sort(order.begin(), order.end());
        Hand& hand = team.next();
        hand.open(path, kSamples * 128 * kKiB);
        for (const uint64_t sample : order) {
          hand.read(path, sample * 128 * kKiB, 128 * kKiB, takes);
        }
        hand.close(path);
      }
    });
  });
  return job.profile();
}

const Machine kRotating{.data_storage = Storage::kRotating};

TEST(RandomAccess, OnARotatingDisk) {
  const analyze::Profile profile = samples_of_large_files(true, 9ms);
  ASSERT_THAT(rules_found(profile, kRotating), ElementsAre("random-access"));
  EXPECT_THAT(advise(profile, kRotating).front().title(), HasSubstr("128 KiB each from rotating"));
}

TEST(RandomAccess, IsNotReportedInOrderOnARotatingDisk) {
  EXPECT_THAT(rules_found(samples_of_large_files(false, 9ms), kRotating), IsEmpty());
}

TEST(RandomAccess, IsNotReportedOnASolidStateDisk) {
  EXPECT_THAT(rules_found(samples_of_large_files(true, 9ms), {.data_storage = Storage::kLocal}),
              IsEmpty());
}

TEST(RandomAccess, IsNotReportedIfAsFastAsSequential) {
  EXPECT_THAT(rules_found(samples_of_large_files(true, 870us), kRotating), IsEmpty());
}

// A second of decoding after `io` of I/O, by four workers.
analyze::Profile decoding(nanoseconds io, nanoseconds compute) {
  JobSketch job;
  Rank& rank = job.rank();
  rank.epoch(0, [&] {
    rank.batch({.compute = compute}, [&](Team& team) {
      for (int i = 0; i < 200; ++i) {
        Hand& hand = team.next();
        hand.read_file(fmt::format("/data/{}.jpg", i), {.size = 2 * kMiB, .takes = io / 10});
        hand.region("decode", 100ms);
      }
    });
  });
  return job.profile();
}

TEST(DecodeBound, TenTimesAsLongInDecodingAsInIo) {
  const analyze::Profile profile = decoding(100ms, 1s);
  ASSERT_THAT(rules_found(profile), ElementsAre("decode-bound"));
  EXPECT_EQ(advise(profile, {}).front().severity, Severity::kProblem);
}

TEST(DecodeBound, IsNotReportedIfIoTakesLonger) {
  EXPECT_THAT(rules_found(decoding(1100ms, 3s)), Not(Contains("decode-bound")));
}

TEST(DecodeBound, IsNotReportedIfTrainingDoesNotWait) {
  EXPECT_THAT(rules_found(decoding(100ms, 6s)), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
