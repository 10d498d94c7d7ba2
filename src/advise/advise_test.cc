// Tests all rules together: healthy and empty jobs, the order of findings, and those that others
// explain.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "advise/testing/waiting_job.h"
#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::HasSubstr;
using testing::IsEmpty;

// A short run may spend most of its time in the start.
TEST(Advise, JudgesByTheTimeOfTraining) {
  Profile profile = job_of({.extension = ".bin"});
  const uint64_t training_ns = profile.job.wall_ns;
  profile.job.wall_ns = profile.time.mean.wall_ns = 100 * training_ns;
  EXPECT_THAT(rules_found(profile), IsEmpty());
  profile.time.mean.training_ns = training_ns;
  const Finding finding = first(profile);
  EXPECT_EQ(finding.rule, "slow-transform");
  EXPECT_EQ(finding.severity, Severity::kProblem);
  EXPECT_TRUE(finding.gain.of_training);
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("% of training time"));
}

TEST(Advise, WorkersThatAreIdleAreNotWhatTrainingWaitsFor) {
  Profile profile = job_with_workers(4);
  profile.loading.work_ns = profile.loading.other_ns = 10 * kSecondNs;  // of 40 s
  profile.time.mean.fetch_exposed_ns = kSecondNs;
  EXPECT_THAT(rules_found(profile, {.cores = 4}), IsEmpty());
  // Unless they load while it waits: the rest of the time, they hand batches over.
  profile.time.mean.fetch_exposed_ns = 5 * kSecondNs;
  EXPECT_EQ(first_rule(profile, {.cores = 4}), "slow-transform");
}

TEST(Advise, AnEmptyProfileHasNoFindings) { EXPECT_THAT(advise({}, {}), IsEmpty()); }

TEST(Advise, ATraceOfOneEventHasNoFindings) {
  JobSketch job;
  job.rank().main.read("/data/a", 0, 100, 10s);
  EXPECT_THAT(rules_found(job.profile()), IsEmpty());
}

// Two ranks on two hosts, shuffled samples of their own shares, reads that overlap with compute.
// Nothing is wrong with it, on any storage.
analyze::Profile healthy(nanoseconds read, nanoseconds compute) {
  JobSketch job(2, 2);
  job.import("torch");
  for (Rank& rank : job.ranks()) {
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      rank.epoch(epoch, [&] {
        const auto order = shuffled(1000, static_cast<uint64_t>(epoch));
        for (uint64_t step = 0; step < 10; ++step) {
          rank.batch({.compute = compute}, [&](Team& team) {
            for (uint64_t i = 0; i < 50; ++i) {
              const uint64_t sample = order[rank.index() * 500 + step * 50 + i];
              team.next().read_file(fmt::format("/data/{:04}.npy", sample),
                                    {.size = 2 * kMiB, .takes = read});
            }
          });
        }
      });
    }
    rank.within("checkpoint", [&] {
      rank.main.write(fmt::format("/out/checkpoint-{}.pt", rank.index()), 0, 64 * kMiB, 100ms);
    });
  }
  return job.profile();
}

TEST(Advise, AHealthyJobHasNoFindingsOnAnyStorage) {
  const analyze::Profile profile = healthy(1ms, 500ms);
  for (size_t i = 0; i < std::size(kStorageNames); ++i) {
    Machine machine{.memory_bytes = 256 * kGiB, .local_disk_bytes = 1000 * kGiB};
    machine.data_storage = machine.checkpoint_storage = static_cast<Storage>(i);
    EXPECT_THAT(rules_found(profile, machine), IsEmpty()) << kStorageNames[i];
  }
}

TEST(Advise, IoThatOverlapsWithComputeCostsNothing) {
  EXPECT_THAT(rules_found(healthy(30ms, 500ms)), IsEmpty());
  JobSketch job;
  job.rank().epoch(0, [&] {
    job.rank().batch({.compute = 10s}, [&](Team& team) {
      for (int i = 0; i < 8; ++i) {
        team.next().read_file(fmt::format("/data/{}.bin", i),
                              {.size = 64 * kMiB, .piece = 16 * kKiB, .takes = 1ms});
      }
    });
  });
  EXPECT_THAT(rules_found(job.profile()), IsEmpty());
}

TEST(Advise, JoinsFindingsAboutTheSameSeconds) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    for (int step = 0; step < 4; ++step) {
      job.rank().batch({.compute = 1s, .readers = 1, .prefetch = false}, [&](Team& team) {
        for (int i = 0; i < 500; ++i) {
          team.next().read_file(fmt::format("/data/{}-{}.jpg", step, i),
                                {.size = 100'000, .takes = 4ms, .opening = 3ms});
        }
      });
    }
  });
  const analyze::Profile profile = job.profile();
  const auto findings = advise(profile, {.cores = 4});
  ASSERT_EQ(findings.size(), 1u);
  // Small files are the cause; prefetch hides it.
  EXPECT_EQ(findings[0].rule, "many-small-files");
  ASSERT_FALSE(findings[0].also.empty());
  uint64_t before_ns = profile.time.mean.wait_ns;
  for (const Finding& other : findings[0].also) {
    EXPECT_LE(other.gain.saved_ns, before_ns) << other.rule;
    before_ns = other.gain.saved_ns;
  }
}

TEST(Advise, ASecondOfIoInAnHourIsIgnored) {
  JobSketch job;
  job.rank().epoch(0, [&] {
    for (int i = 0; i < 2000; ++i) {
      job.rank().main.read_file(fmt::format("/data/{}.csv", i),
                                {.size = 10'000, .piece = 1000, .takes = 50us});
    }
    job.rank().compute(60min);
  });
  EXPECT_THAT(rules_found(job.profile()), IsEmpty());
}

TEST(Rules, HaveUniqueNamesAndSummaries) {
  std::set<std::string_view> names;
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_FALSE(rule.summary.empty());
    EXPECT_LE(rule.summary.size(), 55u) << rule.name;
  }
  EXPECT_EQ(names.size(), 32u);
}

}  // namespace
}  // namespace millrace::advise
