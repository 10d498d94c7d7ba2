// Rules about files: small, hot, shared or text files, and faster places for them.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"
#include "analyze/scan.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::advise {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

analyze::Profile epoch_of_small_files(uint64_t files, uint64_t size, nanoseconds opening) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 500ms}, [&](Team& team) {
      for (const uint64_t i : shuffled(files, 1)) {
        team.next().read_file(fmt::format("/data/{:05}.jpg", i),
                              {.size = size, .takes = 2ms, .opening = opening});
      }
    });
  });
  return job.profile();
}

TEST(ManySmallFiles, AreReportedIfOpensCostAsMuchAsReads) {
  const analyze::Profile profile = epoch_of_small_files(4000, 100'000, 2ms);
  ASSERT_THAT(rules_found(profile), ElementsAre("many-small-files"));
  EXPECT_THAT(advise(profile, {}).front().evidence[0].text,
              HasSubstr("100.0 % of 4,000 data files"));
}

TEST(ManySmallFiles, AreNotReportedIfOpensAreCheap) {
  EXPECT_THAT(rules_found(epoch_of_small_files(4000, 100'000, 450us)), IsEmpty());
}

TEST(ManySmallFiles, SomeMegabytesAreNotSmall) {
  EXPECT_THAT(rules_found(epoch_of_small_files(2000, 2'000'000, 2ms)), IsEmpty());
}

TEST(ManySmallFiles, AHundredAreNotMany) {
  EXPECT_THAT(rules_found(epoch_of_small_files(100, 100'000, 2ms)), IsEmpty());
}

// Three epochs of ten seconds with `early` opens and stats at the start, `late` over the rest.
analyze::Profile epochs_with_metadata(uint64_t early, uint64_t late) {
  JobSketch job;
  Rank& rank = job.rank();
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    rank.epoch(epoch, [&] {
      for (uint64_t i = 0; i < early; ++i) {
        rank.main.call(wire::Call::kStat, fmt::format("/data/{}.rec", i % 100), 250us, 100 * kMiB);
      }
      for (int step = 0; step < 20; ++step) {
        rank.batch({.compute = 450ms}, [&](Team& team) {
          Hand& hand = team.next();
          for (uint64_t i = 0; i < late / 20; ++i) {
            hand.call(wire::Call::kStat, fmt::format("/data/{}.rec", i % 100), 10us, 100 * kMiB);
          }
          const auto file = static_cast<uint64_t>((step + epoch * 7) * 31 % 100);
          hand.read_file(fmt::format("/data/{}.rec", file), {.size = 100 * kMiB, .takes = 50ms});
        });
      }
    });
  }
  return job.profile();
}

TEST(MetadataStorm, AtTheStartOfEveryEpoch) {
  const analyze::Profile profile = epochs_with_metadata(3000, 0);
  ASSERT_THAT(rules_found(profile), ElementsAre("metadata-storm"));
  EXPECT_THAT(advise(profile, {}).front().evidence[0].text, HasSubstr("3 of 3 epochs"));
}

TEST(MetadataStorm, CallsSpreadOverTheEpochAreNoStorm) {
  EXPECT_THAT(rules_found(epochs_with_metadata(0, 7000)), IsEmpty());
}

TEST(MetadataStorm, CallsOfTheTrainingLoopStopTraining) {
  const analyze::Profile profile = epochs_with_metadata(3000, 4000);
  ASSERT_THAT(rules_found(profile), ElementsAre("metadata-storm"));
  const Finding finding = advise(profile, {}).front();
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("most of them in /data"));
  // The first epoch's calls come before the first step.
  EXPECT_NEAR(static_cast<double>(finding.gain.saved_ns), 1.5e9, 0.1e9);
}

// A program without regions that examines files and opens few.
TEST(MetadataStorm, IsSeenWithoutRegions) {
  const auto job_of = [](int stats) {
    const TemporaryDirectory directory = *TemporaryDirectory::create();
    analyze::TraceBuilder job(directory.path() / "t.mrt");
    const analyze::Program program = job.program({});
    for (int i = 0; i < stats; ++i) {
      program.fstat(fmt::format("/data/{}", i % 100), {.at = 10us * i, .takes = 9us, .size = 100});
    }
    for (int i = 0; i < 100; ++i) {
      const auto at = std::chrono::milliseconds(100 + i);
      program.open(fmt::format("/data/{}", i), {.at = at, .takes = 10us});
      program.read(fmt::format("/data/{}", i), {.at = at + 20us, .takes = 10us, .size = 100});
    }
    return analyze::profile_of(job.finish());
  };
  ASSERT_THAT(rules_found(job_of(8000)), ElementsAre("metadata-storm"));
  const Finding finding = advise(job_of(8000), {}).front();
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("8,000 calls"));
  EXPECT_NEAR(static_cast<double>(finding.gain.saved_ns), 72e6, 2e6);
  EXPECT_THAT(rules_found(job_of(700)), IsEmpty());
}

// Besides large files, reads `name` of `size` bytes whole `times` times, opened each time or once.
analyze::Profile beside_large_files(uint64_t size, uint64_t times, bool open_each_time) {
  JobSketch job;
  const std::string path = "/data/means.bin";
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 500ms}, [&](Team& team) {
      for (uint64_t i = 0; i < 40; ++i) {
        team.next().read_file(fmt::format("/data/{}.rec", i),
                              {.size = 100 * kMiB, .piece = 10 * kMiB, .takes = 15ms});
      }
      Hand& hand = team.next();
      if (!open_each_time) hand.open(path, size);
      for (uint64_t i = 0; i < times; ++i) {
        if (open_each_time) hand.open(path, size);
        for (uint64_t at = 0; at < size; at += kMiB) {
          hand.read(path, at, std::min(kMiB, size - at), 3ms);
        }
        if (open_each_time) hand.close(path);
      }
    });
  });
  return job.profile();
}

TEST(HotSmallFile, ReadForEverySample) {
  const analyze::Profile profile = beside_large_files(100'000, 1000, true);
  ASSERT_THAT(rules_found(profile), ElementsAre("hot-small-file"));
  EXPECT_EQ(advise(profile, {}).front().evidence[0].where, "files:/data/means.bin");
}

// Keeping it open would not help: it is parsed again.
TEST(HotSmallFile, IsNoRepeatedOpenIfEachReadsAllOfIt) {
  EXPECT_THAT(rules_found(beside_large_files(100'000, 4000, true)), ElementsAre("hot-small-file"));
}

TEST(HotSmallFile, FiveTimesPerEpochIsReported) {
  EXPECT_THAT(rules_found(beside_large_files(64 * kMiB, 6, false)), ElementsAre("hot-small-file"));
}

TEST(HotSmallFile, FourTimesPerEpochIsNotReported) {
  EXPECT_THAT(rules_found(beside_large_files(64 * kMiB, 4, false)), IsEmpty());
}

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

analyze::Profile setup_with_stats(uint64_t piece, uint64_t size) {
  JobSketch job;
  Rank& rank = job.rank();
  rank.within("setup", [&] {
    rank.main.read_file("/data/stats.h5", {.size = size, .piece = piece, .takes = 500us});
  });
  rank.epoch(0, [&] {
    rank.batch({.compute = 10s}, [&](Team& team) {
      for (int i = 0; i < 40; ++i) {
        team.next().read_file(fmt::format("/data/{}.h5", i),
                              {.size = 100 * kMiB, .piece = 10 * kMiB, .takes = 20ms});
      }
    });
  });
  return job.profile();
}

TEST(StatsFilePieces, ThousandsOfSmallReadsBeforeTraining) {
  const analyze::Profile profile = setup_with_stats(512, 4 * kMiB);
  ASSERT_THAT(rules_found(profile), ElementsAre("stats-file-pieces"));
  EXPECT_EQ(advise(profile, {}).front().evidence[0].where, "files:/data/stats.h5");
}

TEST(StatsFilePieces, FourKibAreNotSmall) {
  EXPECT_THAT(rules_found(setup_with_stats(4096, 32 * kMiB)), Not(Contains("stats-file-pieces")));
}

analyze::Profile shared_file(uint32_t ranks, uint64_t size) {
  JobSketch job(ranks, 2);
  for (Rank& rank : job.ranks()) {
    rank.epoch(0, [&] {
      rank.batch({.compute = 1s}, [&](Team& team) {
        const uint64_t part = size / ranks;
        const uint64_t begin = rank.index() * part;
        for (uint64_t at = begin; at < begin + part; at += 4 * kMiB) {
          Hand& hand = team.next();
          hand.read("/data/all.h5", at, 4 * kMiB, 100ms);
        }
      });
    });
  }
  return job.profile();
}

const Machine kLustre{.data_storage = Storage::kParallel, .data_file_system = "lustre"};

TEST(LargeSharedFile, FourRanksOnLustre) {
  const analyze::Profile profile = shared_file(4, 2 * kGiB);
  ASSERT_THAT(rules_found(profile, kLustre), ElementsAre("large-shared-file"));
  const Finding finding = advise(profile, kLustre).front();
  EXPECT_THAT(change_for(finding, "lustre"), HasSubstr("lfs setstripe -S 4M -c 2 /data"));
}

TEST(LargeSharedFile, ThreeRanksAreNotMany) {
  EXPECT_THAT(rules_found(shared_file(3, 3 * kGiB / 2), kLustre), IsEmpty());
}

TEST(LargeSharedFile, LessThanAGibIsNotLarge) {
  EXPECT_THAT(rules_found(shared_file(4, 1000 * kMiB), kLustre), IsEmpty());
}

TEST(LargeSharedFile, ALocalDiskHasNoServers) {
  EXPECT_THAT(rules_found(shared_file(4, 2 * kGiB), {.data_storage = Storage::kLocal}), IsEmpty());
}

analyze::Profile text_files(const std::string& extension, uint64_t bytes, nanoseconds compute) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = compute}, [&](Team& team) {
      for (uint64_t i = 0; i < 8; ++i) {
        Hand& hand = team.next();
        hand.read_file(fmt::format("/data/{}{}", i, extension),
                       {.size = bytes / 8, .piece = 8 * kMiB, .takes = 3ms});
        hand.region("decode", 1s);
      }
    });
  });
  return job.profile();
}

TEST(TextParsing, AGigabyteOfCsvIsReported) {
  const analyze::Profile profile = text_files(".csv", kGiB, 1s);
  ASSERT_THAT(rules_found(profile), Contains("text-parsing"));
}

TEST(TextParsing, LittleCsvIsNotReported) {
  EXPECT_THAT(rules_found(text_files(".csv", 10 * kMiB, 1s)), Not(Contains("text-parsing")));
}

TEST(TextParsing, BinaryFilesAreNotParsed) {
  EXPECT_THAT(rules_found(text_files(".npy", kGiB, 1s)), Not(Contains("text-parsing")));
}

// Two epochs over a dataset in a new order; the second reads a MiB in `takes`.
analyze::Profile two_epochs(nanoseconds takes, uint64_t epochs = 2, uint64_t times = 1) {
  JobSketch job(2, 2);
  for (Rank& rank : job.ranks()) {
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      rank.epoch(static_cast<int64_t>(epoch), [&] {
        rank.batch({.compute = static_cast<int64_t>(times) * 300ms}, [&](Team& team) {
          const auto order = shuffled(400, epoch);
          for (size_t i = rank.index() * 200; i < rank.index() * 200 + 200; ++i) {
            team.next().read_file(
                fmt::format("/data/{:03}.npy", order[i]),
                {.size = times * 2 * kMiB,
                 .takes = static_cast<int64_t>(times) * (epoch == 0 ? 20ms : takes)});
          }
        });
      });
    }
  }
  return job.profile();
}

TEST(FitsMemory, IsReportedIfReadAgain) {
  const Machine machine{.memory_bytes = 8 * kGiB};
  EXPECT_THAT(rules_found(two_epochs(20ms), machine), ElementsAre("fits-memory"));
}

TEST(FitsMemory, CountsTheMemoryOfAllHosts) {
  const analyze::Profile profile = two_epochs(20ms);
  const Machine machine{.memory_bytes = kGiB};
  ASSERT_THAT(rules_found(profile, machine), ElementsAre("fits-memory"));
  EXPECT_THAT(advise(profile, machine).front().title(), HasSubstr("combined memory"));
}

TEST(FitsMemory, CountsTerabytesOfMemory) {
  EXPECT_THAT(rules_found(two_epochs(20ms, 2, 4000), {.memory_bytes = 8000 * kGiB}),
              ElementsAre("fits-memory"));
}

TEST(FitsMemory, IsNotReportedIfMemoryIsTooSmall) {
  EXPECT_THAT(rules_found(two_epochs(20ms), {.memory_bytes = 700 * kMiB}), IsEmpty());
}

TEST(FitsMemory, IsNotReportedIfThePageCacheHasIt) {
  EXPECT_THAT(rules_found(two_epochs(800us), {.memory_bytes = 8 * kGiB}), IsEmpty());
}

TEST(FitsMemory, IsNotReportedIfReadOnce) {
  EXPECT_THAT(rules_found(two_epochs(20ms, 1), {.memory_bytes = 8 * kGiB}), IsEmpty());
}

TEST(FitsLocalDisk, IsReportedIfReadOverTheNetworkEveryEpoch) {
  const Machine machine{.local_disk_bytes = kGiB, .data_storage = Storage::kNetwork};
  EXPECT_THAT(rules_found(two_epochs(20ms), machine), ElementsAre("fits-local-disk"));
}

TEST(FitsLocalDisk, IsNotReportedWithoutRoom) {
  const Machine machine{.local_disk_bytes = 400 * kMiB, .data_storage = Storage::kNetwork};
  EXPECT_THAT(rules_found(two_epochs(20ms), machine), IsEmpty());
}

TEST(FitsLocalDisk, IsNotReportedIfReadFromALocalDisk) {
  const Machine machine{.local_disk_bytes = 8 * kGiB, .data_storage = Storage::kLocal};
  EXPECT_THAT(rules_found(two_epochs(20ms), machine), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
