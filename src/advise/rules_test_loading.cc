// Rules about the work of loading, and about the training loop. The clinic (tests/clinic) has jobs
// for each of them; here are the limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advise/testing/workloads.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr uint64_t kSecondNs = 1'000'000'000;

// One rank that loads for 8 s in the training thread, computes for 2 s, and starts for 1 s.
Profile waiting_job(const std::string& extension) {
  Profile profile;
  profile.job.wall_ns = 11 * kSecondNs;
  profile.job.ranks = 1;
  profile.job.hosts = {"somewhere"};
  profile.job.epochs = 4;
  profile.job.framework = "pytorch";
  profile.job.dataset_bytes_read = 400 * kMiB;
  profile.time.basis = analyze::WaitBasis::kRegions;
  profile.time.mean.wall_ns = profile.job.wall_ns;
  profile.time.mean.wait_ns = 8 * kSecondNs;
  profile.time.mean.fetch_ns = 8 * kSecondNs;
  profile.time.mean.fetch_exposed_ns = 8 * kSecondNs;
  profile.time.mean.compute_ns = 2 * kSecondNs;
  profile.loading.work_ns = 8 * kSecondNs;
  profile.loading.samples = 4000;
  profile.loading.batches = 125;
  profile.loading.in_flight = 1;
  analyze::GroupStats group;
  group.name = extension;
  group.files = 1;
  group.io.bytes_read = 400 * kMiB;
  profile.extensions = {group};
  group.name = "data";
  profile.kinds = {group};
  return profile;
}

// With one core, there is nothing to gain from workers.
constexpr uint64_t kOneCore = 1;

Finding first(const Profile& profile, const Machine& machine = {.cores = kOneCore}) {
  const auto findings = advise(profile, machine);
  return findings.empty() ? Finding{} : findings.front();
}

Profile hdf5_job(uint64_t read_ns) {
  Profile profile = waiting_job(".h5");
  profile.loading.library_reads = 4000;
  profile.loading.library_bytes = 4000 * 4 * kKiB;
  profile.loading.library_ns = 4000 * read_ns;
  profile.loading.other_ns = 8 * kSecondNs - profile.loading.library_ns;
  analyze::FunctionStats read;
  read.name = "H5Dread";
  read.layer = analyze::Layer::kFormat;
  read.kind = wire::CallKind::kRead;
  read.count = 4000;
  read.time_ns = profile.loading.library_ns;
  profile.functions = {read};
  return profile;
}

TEST(Hdf5Chunks, AMillisecondForARowIsAChunk) {
  const Finding finding = first(hdf5_job(1'000'000));
  EXPECT_EQ(finding.rule, "hdf5-chunks");
  // 4 s, without 20 us for each read.
  EXPECT_NEAR(static_cast<double>(finding.gain.saved_ns), 3.92e9, 1e7);
}

TEST(Hdf5Chunks, AFewMicrosecondsAreARow) {
  EXPECT_THAT(rules_found(hdf5_job(30'000)), Not(Contains("hdf5-chunks")));
}

TEST(CompressedSamples, AreTakenFromTheExtension) {
  Profile profile = waiting_job(".npz");
  profile.loading.other_ns = 8 * kSecondNs;
  EXPECT_EQ(first(profile).rule, "compressed-samples");
  profile.extensions[0].name = ".bin";
  EXPECT_EQ(first(profile).rule, "decode-bound");
  EXPECT_THAT(first(profile).title, HasSubstr("the dataset's own code"));
  profile.extensions[0].name = ".csv";
  EXPECT_EQ(first(profile).rule, "text-parsing");
  profile.extensions[0].name = ".jpg";
  EXPECT_EQ(first(profile).rule, "decode-bound");
  EXPECT_THAT(first(profile).title, HasSubstr("decoding .jpg"));
}

TEST(SlowTransform, TakesHalfOfTheLoading) {
  Profile profile = waiting_job(".npy");
  profile.loading.transform_ns = 5 * kSecondNs;
  profile.loading.other_ns = 3 * kSecondNs;
  EXPECT_EQ(first(profile).rule, "slow-transform");
  profile.loading.transform_ns = 3 * kSecondNs;
  profile.loading.other_ns = 5 * kSecondNs;
  EXPECT_THAT(rules_found(profile), Not(Contains("slow-transform")));
}

TEST(LittlePrefetch, IsLimitedByTheCores) {
  Profile profile = waiting_job(".jpg");
  profile.loading.other_ns = 8 * kSecondNs;
  const auto saved_s = [&](uint64_t cores) {
    for (const Finding& finding : advise(profile, {.cores = cores})) {
      for (const Finding& other : finding.also) {
        if (other.rule == "little-prefetch") return static_cast<double>(other.gain.saved_ns) / 1e9;
      }
    }
    return 0.0;
  };
  EXPECT_EQ(saved_s(1), 0);
  // Of 10 s, at least half of 9 s of loading and 2 s of compute are left.
  EXPECT_NEAR(saved_s(2), 4.5, 0.01);
  EXPECT_NEAR(saved_s(16), 8, 0.01);
}

Profile job_with_workers(uint64_t workers) {
  Profile profile = waiting_job(".bin");
  profile.job.processes = static_cast<uint32_t>(1 + workers);
  profile.loading.threads = workers;
  profile.loading.in_flight = static_cast<double>(workers);
  profile.loading.work_ns = workers * 8 * kSecondNs;
  profile.loading.other_ns = profile.loading.work_ns;
  return profile;
}

TEST(TooManyWorkers, AreMoreThanTwiceTheCores) {
  EXPECT_EQ(first(job_with_workers(16), {.cores = 4}).rule, "too-many-workers");
  EXPECT_THAT(rules_found(job_with_workers(8), {.cores = 4}), Not(Contains("too-many-workers")));
  Profile reading = job_with_workers(16);  // they wait for storage and need no core
  reading.loading.read_ns = reading.loading.work_ns;
  reading.loading.other_ns = 0;
  EXPECT_THAT(rules_found(reading, {.cores = 4}), Not(Contains("too-many-workers")));
}

TEST(Advise, WorkersThatAreIdleAreNotWhatTrainingWaitsFor) {
  Profile profile = job_with_workers(4);
  profile.loading.work_ns = profile.loading.other_ns = 10 * kSecondNs;  // of 40 s
  EXPECT_THAT(rules_found(profile, {.cores = 4}), IsEmpty());
}

TEST(WorkerRestart, CostsTheStartsOfLaterEpochs) {
  Profile profile = job_with_workers(2);
  profile.loading.epoch_starts = 4;
  profile.loading.epoch_starts_ns = 4 * kSecondNs;
  profile.loading.epoch_starts_first_ns = kSecondNs;
  profile.loading.fetch_mean_ns = 100'000'000;
  EXPECT_THAT(rules_found(profile, {.cores = 4}), Not(Contains("worker-restart")));
  profile.job.processes = 1 + 4 * 2;
  const auto findings = advise(profile, {.cores = 4});
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [](const auto& each) { return each.rule == "worker-restart"; });
  ASSERT_NE(found, findings.end());
  EXPECT_NEAR(static_cast<double>(found->gain.saved_ns), 2.7e9, 1e7);
}

analyze::Stall stall(const std::string& name, const std::string& directory) {
  analyze::Stall stall;
  stall.phase = "in training";
  stall.name = name;
  stall.directory = directory;
  stall.count = 100;
  stall.gaps = 50;
  stall.stall_ns = kSecondNs;
  return stall;
}

TEST(LoopStall, NamesTheCallsOfTheTrainingLoop) {
  Profile profile = waiting_job(".bin");
  analyze::FunctionStats sync;
  sync.name = "fsync";
  sync.kind = wire::CallKind::kSync;
  profile.functions = {sync};
  profile.stalls = {stall("fsync", "/out/logs")};
  const Finding finding = first(profile);
  EXPECT_EQ(finding.rule, "loop-stall");
  EXPECT_THAT(finding.title, HasSubstr("write files (fsync)"));
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("/out/logs"));
  EXPECT_EQ(finding.gain.saved_ns, kSecondNs);
}

TEST(LoopStall, ImportsAndSharedMemoryAreNotTheLoops) {
  Profile profile = waiting_job(".bin");
  profile.stalls = {stall("read", "/usr/lib/python3.11/json"), stall("close", "/dev/shm"),
                    stall("", "")};
  EXPECT_THAT(rules_found(profile, {.cores = kOneCore}), IsEmpty());
  profile.stalls = {stall("read", "/data")};
  profile.stalls[0].phase = "before training";
  EXPECT_THAT(rules_found(profile, {.cores = kOneCore}), IsEmpty());
}

}  // namespace
}  // namespace millrace::advise
