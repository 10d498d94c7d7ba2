// Rules about how data is read: sizes, reads in flight, prefetch, amplification.
#include <fcntl.h>
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

// One epoch over files that four threads read in pieces; 40 % of it overlaps with compute.
analyze::Profile epoch_in_pieces(uint64_t piece, nanoseconds takes, unsigned readers = 4) {
  constexpr uint64_t kFileSize = 64 * kMiB;
  constexpr uint64_t kFiles = 8;
  JobSketch job;
  const auto each = static_cast<int64_t>(kFiles * (kFileSize / piece) / readers) * takes;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = each * 2 / 5, .readers = readers}, [&](Team& team) {
      for (uint64_t i = 0; i < kFiles; ++i) {
        team.next().read_file(fmt::format("/data/{}.bin", i),
                              {.size = kFileSize, .piece = piece, .takes = takes});
      }
    });
  });
  return job.profile();
}

TEST(SmallReads, SixteenKibAreReportedWithNumbers) {
  const analyze::Profile profile = epoch_in_pieces(16 * kKiB, 1ms);
  ASSERT_THAT(rules_found(profile), ElementsAre("small-reads"));
  const Finding finding = advise(profile, {}).front();
  EXPECT_EQ(finding.severity, Severity::kProblem);
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("100.0 % of 32,768 data reads"));
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("16 KiB"));
  EXPECT_GT(finding.gain.share, 0.3);
  EXPECT_LT(finding.gain.share, 0.6);  // at most the part that does not overlap
}

TEST(SmallReads, SixtyFourKibAreLargeEnoughForADisk) {
  EXPECT_THAT(rules_found(epoch_in_pieces(64 * kKiB, 1ms)), IsEmpty());
}

TEST(SmallReads, SixtyFourKibAreTooSmallForLustreAndTheStripeIsNamed) {
  const analyze::Profile profile = epoch_in_pieces(64 * kKiB, 4ms);
  const Machine machine{.data_storage = Storage::kParallel, .data_file_system = "lustre"};
  ASSERT_THAT(rules_found(profile, machine), ElementsAre("small-reads"));
  const Finding finding = advise(profile, machine).front();
  EXPECT_THAT(change_for(finding, "lustre"), HasSubstr("lfs setstripe -S 1M -c 1 /data"));
}

TEST(SmallReads, OneMibIsLargeEnoughForLustre) {
  const Machine machine{.data_storage = Storage::kParallel, .data_file_system = "lustre"};
  EXPECT_THAT(rules_found(epoch_in_pieces(kMiB, 16ms), machine), IsEmpty());
}

// Each is as small as a file of statistics, but together they are the dataset.
TEST(SmallReads, TenFilesInPiecesAreADataset) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 100ms}, [&](Team& team) {
      for (int i = 0; i < 10; ++i) {
        team.next().read_file(fmt::format("/data/{}.data", i),
                              {.size = 2 * kMiB, .piece = 256, .takes = 100us});
      }
    });
  });
  EXPECT_THAT(rules_found(job.profile()), Contains("small-reads"));
}

TEST(SmallReads, AreNotReportedIfTheyTakeNoTime) {
  EXPECT_THAT(rules_found(epoch_in_pieces(16 * kKiB, 2us)), IsEmpty());
}

TEST(FewReadsInFlight, OneReaderThatWaitsForADevice) {
  const analyze::Profile profile = epoch_in_pieces(256 * kKiB, 2ms, 1);
  ASSERT_THAT(rules_found(profile), ElementsAre("few-reads-in-flight"));
  EXPECT_THAT(advise(profile, {}).front().evidence[0].text, HasSubstr("1.00 reads in flight"));
}

TEST(FewReadsInFlight, TwoReadersAreNotFew) {
  EXPECT_THAT(rules_found(epoch_in_pieces(256 * kKiB, 2ms, 2)), IsEmpty());
}

TEST(FewReadsInFlight, OneReaderOfThePageCacheIsEnough) {
  EXPECT_THAT(rules_found(epoch_in_pieces(kMiB, 500us, 1)), IsEmpty());
}

// Ten batches of 64 MiB that take a second to read and a second to compute.
analyze::Profile batches(bool prefetch, nanoseconds compute) {
  JobSketch job;
  job.import("torch");
  Rank& rank = job.rank();
  rank.epoch(0, [&] {
    for (int i = 0; i < 10; ++i) {
      rank.batch({.compute = compute, .readers = 4, .prefetch = prefetch}, [&](Team& team) {
        for (int piece = 0; piece < 64; ++piece) {
          Hand& hand = team.next();
          hand.read_file(fmt::format("/data/{:02}-{:02}.npy", i, piece),
                         {.size = 2 * kMiB, .takes = 60ms});
        }
      });
    }
  });
  return job.profile();
}

TEST(LittlePrefetch, ReadingOnlyWhenTheBatchIsNeeded) {
  const analyze::Profile profile = batches(false, 1s);
  ASSERT_THAT(rules_found(profile), ElementsAre("little-prefetch"));
  const Finding finding = advise(profile, {}).front();
  EXPECT_NEAR(finding.gain.share, 0.5, 0.02);
  ASSERT_FALSE(finding.changes.empty());
  EXPECT_EQ(finding.changes[0].framework, "pytorch");
  for (const Change& change : finding.changes) EXPECT_NE(change.framework, "tf.data");
}

TEST(LittlePrefetch, IsNotReportedIfHalfOfReadingOverlaps) {
  EXPECT_THAT(rules_found(batches(true, 500ms)), IsEmpty());
}

TEST(LittlePrefetch, IsNotReportedWithoutComputeToOverlapWith) {
  EXPECT_THAT(rules_found(batches(false, 20ms)), IsEmpty());
}

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

// For each of `times` samples the whole file of 8 MiB is read.
analyze::Profile whole_file_for_each_sample(int times) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 500ms}, [&](Team& team) {
      for (int sample = 0; sample < times; ++sample) {
        for (int file = 0; file < 32; ++file) {
          team.next().read_file(fmt::format("/data/{}.npz", file),
                                {.size = 8 * kMiB, .piece = kMiB, .takes = 5ms});
        }
      }
    });
  });
  return job.profile();
}

TEST(PartialUse, AFileReadWholeForEverySample) {
  EXPECT_THAT(rules_found(whole_file_for_each_sample(4)), ElementsAre("partial-use"));
}

TEST(PartialUse, ThreeTimesIsNotReported) {
  EXPECT_THAT(rules_found(whole_file_for_each_sample(3)), Not(Contains("partial-use")));
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

// `lines` lines of 80 bytes, then blocks of 1 MiB.
analyze::Profile text_by_lines(uint64_t lines, uint64_t blocks) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 500ms, .readers = 2}, [&](Team& team) {
      Hand& hand = team.next();
      hand.open("/data/train.txt", lines * 80 + blocks * kMiB);
      for (uint64_t i = 0; i < lines; ++i) {
        hand.transfer(wire::Call::kFgets, "/data/train.txt", 80, 100us, i * 80);
      }
      for (uint64_t i = 0; i < blocks; ++i) {
        hand.read("/data/train.txt", lines * 80 + i * kMiB, kMiB, 400us);
      }
      Hand& other = team.next();  // at the same time, so that two reads are in flight
      other.open("/data/b.bin", 1000 * kMiB);
      for (uint64_t i = 0; i < 20; ++i) other.read("/data/b.bin", i * 50 * kMiB, 50 * kMiB, 90ms);
    });
  });
  return job.profile();
}

TEST(LineReads, TwentyThousandLines) {
  EXPECT_THAT(rules_found(text_by_lines(20'000, 0)), ElementsAre("line-reads"));
}

TEST(LineReads, LessThanHalfOfTheReadsIsNotReported) {
  EXPECT_THAT(rules_found(text_by_lines(10'000, 10'100)), Not(Contains("line-reads")));
}

analyze::Profile direct_reads(uint64_t piece, uint64_t files) {
  JobSketch job;
  job.rank().batch({.compute = 1s}, [&](Team& team) {
    for (uint64_t i = 0; i < files; ++i) {
      team.next().read_file(
          fmt::format("/data/{}.bin", i),
          {.size = 10 * kMiB + 100, .piece = piece, .takes = 1ms, .flags = O_DIRECT});
    }
  });
  return job.profile();
}

TEST(UnalignedDirect, PiecesOfAHundredThousandBytes) {
  EXPECT_THAT(rules_found(direct_reads(100'000, 4)), ElementsAre("unaligned-direct"));
}

TEST(UnalignedDirect, UnalignedEndsOfFilesAreNotReported) {
  EXPECT_THAT(rules_found(direct_reads(128 * kKiB, 200)), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
