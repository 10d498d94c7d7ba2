// Rules about the work of loading, and about the training loop. The clinic (tests/clinic) has jobs
// for each of them; here are the limits.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "advise/testing/workloads.h"
#include "analyze/scan.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"

namespace millrace::advise {
namespace {

using analyze::Profile;
using namespace std::chrono_literals;
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
  profile.loading.reads = 4000;
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

std::string first_rule(const Profile& profile, const Machine& machine = {.cores = kOneCore}) {
  return first(profile, machine).rule;
}

double saved_s(const Finding& finding) { return static_cast<double>(finding.gain.saved_ns) / 1e9; }

// The same job, if all of its loading is code.
struct Code {
  std::string extension;
  std::string content = {};  // what the bytes of the files say
  uint64_t reads = 4000;
  uint64_t decode_ns = 0;  // regions of libraries in the code
  uint64_t decompress_ns = 0;
  uint64_t parse_ns = 0;
};

Profile job_of(const Code& code) {
  Profile profile = waiting_job(code.extension);
  profile.extensions.front().content = code.content;
  profile.loading.reads = code.reads;
  profile.loading.other_ns = 8 * kSecondNs;
  profile.loading.decode_ns = code.decode_ns;
  profile.loading.decompress_ns = code.decompress_ns;
  profile.loading.parse_ns = code.parse_ns;
  return profile;
}

std::string first_rule(const Code& code) { return first_rule(job_of(code)); }

analyze::FunctionStats function(const std::string& name, wire::CallKind kind) {
  analyze::FunctionStats function;
  function.name = name;
  function.kind = kind;
  return function;
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

Profile hdf5_job(uint64_t read_ns) {
  Profile profile = waiting_job(".h5");
  profile.loading.library_reads = 4000;
  profile.loading.library_bytes = 4000 * 4 * kKiB;
  profile.loading.library_ns = 4000 * read_ns;
  profile.loading.other_ns = 8 * kSecondNs - profile.loading.library_ns;
  analyze::FunctionStats read = function("H5Dread", wire::CallKind::kRead);
  read.layer = analyze::Layer::kFormat;
  read.count = 4000;
  read.time_ns = profile.loading.library_ns;
  profile.functions = {read};
  return profile;
}

TEST(Hdf5Chunks, AMillisecondForARowIsAChunk) {
  const Finding finding = first(hdf5_job(1'000'000));
  EXPECT_EQ(finding.rule, "hdf5-chunks");
  // 4 s, without 20 us for each read.
  EXPECT_NEAR(saved_s(finding), 3.92, 0.01);
}

TEST(Hdf5Chunks, AFewMicrosecondsAreARow) {
  EXPECT_THAT(rules_found(hdf5_job(30'000)), Not(Contains("hdf5-chunks")));
}

TEST(DataFormat, IsTakenFromTheExtension) {
  EXPECT_EQ(first_rule({.extension = ".npz"}), "compressed-samples");
  EXPECT_EQ(first_rule({.extension = ".csv"}), "text-parsing");
  EXPECT_EQ(first_rule({.extension = ".jpg"}), "decode-bound");
  EXPECT_THAT(first(job_of({.extension = ".jpg"})).title(), HasSubstr("decoding .jpg"));
  EXPECT_EQ(first_rule({.extension = ".bin"}), "slow-transform");
  EXPECT_THAT(first(job_of({.extension = ".bin"})).title(), HasSubstr("the dataset's own code"));
}

TEST(DataFormat, IsWhatTheBytesSayIfTheNameSaysNothing) {
  EXPECT_EQ(first_rule({.extension = ".mgz"}), "slow-transform");
  EXPECT_EQ(first_rule({.extension = ".mgz", .content = "gzip"}), "compressed-samples");
  EXPECT_EQ(first_rule({.extension = ".mgz", .content = "text"}), "text-parsing");
  // Names that may mean something else.
  EXPECT_EQ(first_rule({.extension = ".dat"}), "slow-transform");
  EXPECT_EQ(first_rule({.extension = ".dat", .content = "text"}), "text-parsing");
  EXPECT_EQ(first_rule({.extension = ".npz", .content = "zip stored"}), "slow-transform");
}

// Regions of libraries say more than the names of files.
TEST(DecodeBound, IsKnownByTheRegionsOfDecoders) {
  const Code records{.extension = ".rec", .decode_ns = 5 * kSecondNs};
  EXPECT_EQ(first_rule(records), "decode-bound");
  EXPECT_THAT(first(job_of(records)).title(), HasSubstr("what is in .rec"));
  EXPECT_EQ(first_rule({.extension = ".tsv", .decode_ns = 5 * kSecondNs}), "decode-bound");
  EXPECT_EQ(first_rule({.extension = ".tsv", .decode_ns = kSecondNs / 2}), "text-parsing");
  EXPECT_EQ(first_rule({.extension = ".rec", .decode_ns = kSecondNs / 2}), "slow-transform");
  // Only code that takes twice as long as decoding is something else.
  EXPECT_EQ(first_rule({.extension = ".png", .decode_ns = kSecondNs / 2}), "slow-transform");
  EXPECT_EQ(first_rule({.extension = ".png", .decode_ns = 3 * kSecondNs}), "decode-bound");
}

TEST(CompressedSamples, AreKnownByTheRegionsOfDecompressors) {
  for (const char* extension : {".rec", ".gz"}) {
    EXPECT_EQ(first_rule({.extension = extension, .decompress_ns = 6 * kSecondNs}),
              "compressed-samples");
  }
  Code little{.extension = ".gz", .decompress_ns = kSecondNs};
  EXPECT_EQ(first_rule(little), "slow-transform");
  little.parse_ns = 6 * kSecondNs;
  EXPECT_EQ(first_rule(little), "text-parsing");
  // Of compressed text, neither has to be half of the code.
  EXPECT_EQ(
      first_rule(
          {.extension = ".jsonl.gz", .decompress_ns = 2 * kSecondNs, .parse_ns = 3 * kSecondNs}),
      "text-parsing");
}

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

TEST(TextParsing, IsNotTheWaitingForSlowReads) {
  Profile profile = job_of({.extension = ".csv", .reads = 1000});
  profile.loading.read_ns = 6 * kSecondNs;  // 6 ms each
  EXPECT_THAT(rules_found(profile), Not(Contains("text-parsing")));
}

// LitData reads an index once, and maps the data.
TEST(TextParsing, IsNotASmallIndexBesideTheData) {
  Profile profile = job_of({.extension = ".json", .parse_ns = kSecondNs / 2000});
  analyze::GroupStats& index = profile.extensions.front();
  index.size_bytes = index.io.bytes_read = 50 * kKiB;
  index.io.opens = 10;
  EXPECT_EQ(first_rule(profile), "slow-transform");  // the parser would need 160 us for a byte
  EXPECT_THAT(rules_found(profile), Not(Contains("text-parsing")));
  analyze::GroupStats chunks;
  chunks.name = ".bin";
  chunks.size_bytes = kGiB;
  chunks.io.maps = 16;
  index.io.bytes_read = 50 * kMiB;
  EXPECT_THAT(rules_found(profile), Contains("text-parsing"));
  profile.extensions.push_back(chunks);
  EXPECT_THAT(rules_found(profile), Not(Contains("text-parsing")));
}

// Decoding is what decoders did; the rest is named as what it is.
TEST(DecodeBound, SaysHowLongDecodingTook) {
  const Finding little = first(job_of({.extension = ".jpg", .decode_ns = 3 * kSecondNs}));
  EXPECT_THAT(little.title(), HasSubstr("decoding and transforming .jpg"));
  EXPECT_THAT(little.evidence[1].text,
              HasSubstr("decoding took 3 s, transforms and other code 5 s"));
  const Finding most = first(job_of({.extension = ".jpg", .decode_ns = 8 * kSecondNs}));
  EXPECT_THAT(most.title(), HasSubstr("decoding .jpg"));
  EXPECT_THAT(most.evidence[1].text, HasSubstr("decoding took 8 s, calls"));
}

// A FASTA file that is read once, and encoded base by base in every epoch.
TEST(TextParsing, IsNotWhatCodeDoesWithTextInMemory) {
  EXPECT_EQ(first_rule({.extension = ".fa", .content = "text"}), "text-parsing");
  EXPECT_EQ(first_rule({.extension = ".fa", .content = "text", .reads = 0}), "slow-transform");
}

// A header that is parsed each time the file is opened is no text.
TEST(TextParsing, IsNotAHeaderOfAnArchive) {
  Profile profile = job_of({.extension = ".safetensors"});
  profile.loading.parse_ns = 7 * kSecondNs;
  EXPECT_EQ(first_rule(profile), "text-parsing");
  profile.loading.opens = 4000;
  profile.data.files_read = 1;
  EXPECT_THAT(rules_found(profile), Not(Contains("text-parsing")));
}

// Eight threads of the dataset read for its one worker.
TEST(FewReadsInFlight, CountsReadsOfHelperThreads) {
  Profile profile = job_of({.extension = ".bin"});
  profile.loading.threads = 1;
  profile.loading.reads = 0;
  profile.kinds[0].io.reads = 4000;
  profile.kinds[0].io.read_ns = 7 * kSecondNs;
  profile.epochs = {{.io = profile.kinds[0].io}};
  analyze::RankLoad rank;
  rank.data_bytes_read = 400 * kMiB;
  rank.threads_reading = 9;
  rank.calls_in_flight = 1;
  profile.ranks = {rank};
  EXPECT_EQ(first_rule(profile), "few-reads-in-flight");
  EXPECT_EQ(first_rule(profile, {.cores = 1, .data_storage = Storage::kRotating}),
            "few-reads-in-flight");
  profile.ranks[0].calls_in_flight = 7;
  EXPECT_THAT(rules_found(profile), Not(Contains("few-reads-in-flight")));
  // One thread reads ahead for the training process.
  profile.loading.threads = 0;
  profile.ranks[0].threads_reading = 1;
  profile.ranks[0].calls_in_flight = 1;
  EXPECT_EQ(first_rule(profile), "few-reads-in-flight");
  // The loop reads by itself.
  profile.functions = {function("read", wire::CallKind::kRead)};
  profile.stalls = {stall("read", "/data")};
  profile.stalls[0].count = 4000;
  profile.stalls[0].time_ns = 7 * kSecondNs;
  EXPECT_THAT(rules_found(profile), Not(Contains("few-reads-in-flight")));
}

TEST(SlowTransform, TakesHalfOfTheLoading) {
  Profile profile = waiting_job(".npy");
  profile.loading.transform_ns = 5 * kSecondNs;
  profile.loading.other_ns = 3 * kSecondNs;
  EXPECT_THAT(first(profile).title(), HasSubstr("transforms"));
  profile.loading.transform_ns = 3 * kSecondNs;
  profile.loading.other_ns = 5 * kSecondNs;
  EXPECT_THAT(first(profile).title(), HasSubstr("the dataset's own code"));
}

// Two workers on two cores, always busy. A step takes 4 ms when they are not, and 20 ms on average.
TEST(SlowTransform, CountsTheComputeThatWorkersSlowDown) {
  Profile profile = waiting_job(".npy");
  profile.time.mean.wait_ns = 1 * kSecondNs;
  profile.time.mean.compute_ns = 9 * kSecondNs;
  profile.time.mean.fetch_ns = 10 * kSecondNs;
  profile.time.mean.fetch_exposed_ns = 1 * kSecondNs;
  profile.loading.threads = 2;
  profile.loading.work_ns = 18 * kSecondNs;
  profile.loading.other_ns = 18 * kSecondNs;
  profile.job.cores = 2;
  EXPECT_LT(first(profile).gain.saved_ns, 1 * kSecondNs);
  profile.steps.compute_ns.count = 500;
  profile.steps.compute_ns.min = 4'000'000;
  // 1 s of waiting and 9 s of compute, without 1.5 times 500 steps of 4 ms; eight tenths of it.
  EXPECT_NEAR(saved_s(first(profile)), 0.8 * 7, 0.1);
  EXPECT_THAT(first(profile).gain.how, HasSubstr("compute that this work slows down"));
  profile.job.cores = 3;
  EXPECT_LT(first(profile).gain.saved_ns, 1 * kSecondNs);
  EXPECT_THAT(first(profile).gain.how, Not(HasSubstr("compute")));
}

// sorted(loader): two workers load an epoch, and then rest while training computes.
TEST(LittlePrefetch, IfTheLoopTakesAllBatchesBeforeItTrains) {
  Profile profile = waiting_job(".pcm");
  profile.time.mean.wait_ns = 5 * kSecondNs;
  profile.time.mean.fetch_ns = 5 * kSecondNs;
  profile.time.mean.fetch_exposed_ns = 5 * kSecondNs;
  profile.time.mean.compute_ns = 5 * kSecondNs;
  profile.loading.threads = 2;
  profile.loading.work_ns = profile.loading.other_ns = 9 * kSecondNs;
  const Finding finding = first(profile, {.cores = 2});
  EXPECT_EQ(finding.rule, "little-prefetch");
  EXPECT_THAT(finding.changes.front().text, HasSubstr("sorted(loader)"));
  profile.loading.work_ns = profile.loading.other_ns = 12 * kSecondNs;
  EXPECT_EQ(first_rule(profile, {.cores = 2}), "slow-transform") << "two workers cannot keep up";
}

analyze::FileStats data_file(const std::string& path, uint64_t size_bytes, uint64_t passes) {
  analyze::FileStats file;
  file.path = path;
  file.kind = analyze::FileKind::kData;
  file.size_bytes = size_bytes;
  file.unique_bytes_read = size_bytes;
  file.readers = 1;
  file.ranks = 1;
  file.io.opens = passes;
  file.io.reads = passes;
  file.io.bytes_read = passes * size_bytes;
  return file;
}

// Chunks of 64 rows, which are decompressed for each row.
TEST(PartialUse, IsAShardThatIsReadWholeForEachSample) {
  Profile profile = job_of({.extension = ".chunk", .decompress_ns = 6 * kSecondNs});
  profile.loading.opens = 4000;
  profile.data.files_read = profile.job.dataset_files = 16;
  profile.data.index_end = 1000;
  profile.job.dataset_bytes = profile.job.dataset_unique_bytes = 16 * 100 * kKiB;
  profile.kinds[0].io.opens = 4000;
  profile.kinds[0].io.bytes_read = profile.job.dataset_bytes_read = 4000 * 100 * kKiB;
  const Finding finding = first(profile);
  EXPECT_EQ(finding.rule, "partial-use");
  EXPECT_NEAR(saved_s(finding), 7.87, 0.01) << "a file is needed once for its 62.5 samples";
  profile.data.index_end = 16;  // a sample is a file
  EXPECT_THAT(rules_found(profile), Not(Contains("partial-use")));
  profile.data.index_end = 1000;
  profile.kinds[0].io.bytes_read = 4000 * 10 * kKiB;  // only the sample is read
  EXPECT_THAT(rules_found(profile), Not(Contains("partial-use")));
}

TEST(HotSmallFile, AVocabularyIsNotTheText) {
  Profile profile = job_of({.extension = ".json"});
  profile.loading.opens = 4000;
  profile.loading.reads = 4000;
  profile.files = {data_file("/data/words.json", 100 * kKiB, 4000)};
  profile.job.dataset_files = 2;
  profile.job.dataset_bytes_read = 4000 * 100 * kKiB;
  profile.job.dataset_unique_bytes = 100 * kKiB;
  EXPECT_EQ(first_rule(profile), "hot-small-file");
  EXPECT_GT(first(profile).gain.saved_ns, 7 * kSecondNs);
  profile.files[0].path = "/data/rows.csv";
  profile.extensions[0].name = ".csv";
  EXPECT_EQ(first_rule(profile), "text-parsing");
}

TEST(HotSmallFile, LoadedForEachBatch) {
  Profile profile = waiting_job(".pkl");
  const uint64_t batches = profile.loading.batches;
  profile.loading.other_ns = kSecondNs;
  profile.loading.collate_ns = 7 * kSecondNs;
  profile.loading.opens = profile.loading.reads = batches;
  profile.files = {data_file("/data/popularity.pkl", kMiB, batches)};
  profile.job.dataset_files = 1;
  profile.job.dataset_bytes_read = batches * kMiB;
  profile.job.dataset_unique_bytes = kMiB;
  EXPECT_EQ(first_rule(profile), "hot-small-file");
  EXPECT_GT(first(profile).gain.saved_ns, 6 * kSecondNs);
}

TEST(SameBytes, WorkersThatDoNotDivideTheSamples) {
  Profile profile = waiting_job(".npy");
  profile.loading.threads = 2;
  profile.files = {data_file("/data/a.npy", kMiB, 8), data_file("/data/b.npy", kMiB, 8)};
  profile.job.dataset_unique_bytes = 2 * kMiB;
  profile.job.dataset_bytes_read = 16 * kMiB;
  EXPECT_EQ(first_rule(profile), "same-bytes");
  EXPECT_EQ(first(profile).gain.saved_ns, 5 * kSecondNs);
  // A worker that reads one of the files again is something else.
  profile.files[1].io.bytes_read = 4 * kMiB;
  EXPECT_THAT(rules_found(profile), Not(Contains("same-bytes")));
}

TEST(LoopLoading, ALoopThatReadsItsDataIsALoader) {
  Profile profile = waiting_job(".jpg");
  profile.loading = {};
  profile.time.basis = analyze::WaitBasis::kIoTime;
  profile.time.mean.wait_ns = 0;
  profile.files = {data_file("/data/1.jpg", kMiB, 4)};
  profile.functions = {function("read", wire::CallKind::kRead)};
  profile.stalls = {stall("read", "/data")};
  profile.stalls[0].time_ns = kSecondNs / 2;
  profile.stalls[0].stall_ns = 6 * kSecondNs;
  EXPECT_EQ(first_rule(profile), "decode-bound");
  EXPECT_THAT(rules_found(profile), Not(Contains("loop-stall")));
  // Reads of something else are not loading.
  profile.stalls[0].directory = "/home";
  EXPECT_EQ(first_rule(profile), "loop-stall");
}

TEST(LittlePrefetch, IsLimitedByTheCores) {
  Profile profile = job_of({.extension = ".jpg"});
  const auto saved_with = [&](uint64_t cores) {
    for (const Finding& finding : advise(profile, {.cores = cores})) {
      for (const Finding& other : finding.also) {
        if (other.rule == "little-prefetch") return saved_s(other);
      }
    }
    return 0.0;
  };
  EXPECT_EQ(saved_with(1), 0);
  // Of 10 s, at least half of 9 s of loading and 2 s of compute are left. To take 125 batches from
  // workers costs 62 ms.
  ASSERT_EQ(profile.loading.batches, 125);
  EXPECT_NEAR(saved_with(2), 4.47, 0.01);
  EXPECT_NEAR(saved_with(16), 7.94, 0.01);
}

// Batches that are loaded in less time than a worker needs to hand them over.
TEST(LittlePrefetch, IsNotWorthItForQuickBatches) {
  Profile profile = job_of({.extension = ".jpg"});
  profile.loading.batches = 4000;  // 2 ms of loading and 0.5 ms of compute for each
  EXPECT_THAT(advise(profile, {.cores = 4}).front().also, Not(IsEmpty()));
  profile.loading.batches = 16'000;
  for (const Finding& finding : advise(profile, {.cores = 4})) {
    EXPECT_NE(finding.rule, "little-prefetch");
    for (const Finding& other : finding.also) EXPECT_NE(other.rule, "little-prefetch");
  }
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
  EXPECT_EQ(first_rule(job_with_workers(16), {.cores = 4}), "too-many-workers");
  EXPECT_THAT(rules_found(job_with_workers(8), {.cores = 4}), Not(Contains("too-many-workers")));
  Profile reading = job_with_workers(16);  // they wait for storage and need no core
  reading.loading.read_ns = reading.loading.work_ns;
  reading.loading.other_ns = 0;
  EXPECT_THAT(rules_found(reading, {.cores = 4}), Not(Contains("too-many-workers")));
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
  EXPECT_NEAR(saved_s(*found), 2.7, 0.01);
}

// A file that may have many names in many folders is searched for each sample.
TEST(MetadataStorm, IsASearchForFilesThatDoNotExist) {
  Profile profile = job_of({.extension = ".npy", .reads = 0});
  profile.loading.stats = profile.loading.missing = 4000 * 64;
  profile.loading.metadata_ns = kSecondNs;
  profile.loading.other_ns = 5 * kSecondNs;
  const Finding finding = first(profile);
  EXPECT_EQ(finding.rule, "metadata-storm");
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("100.0 % of them for files that do not exist"));
  EXPECT_NEAR(saved_s(finding), 6, 0.01);
  EXPECT_THAT(rules_found(profile), Not(Contains("slow-transform"))) << "the code searches, too";
  profile.loading.missing = 0;
  EXPECT_EQ(first_rule(profile), "metadata-storm") << "or for times of files that do";
  // Eight calls take little code. What is left is the dataset's own.
  profile.loading.stats = profile.loading.missing = 4000 * 8;
  EXPECT_EQ(first_rule(profile), "slow-transform");
  EXPECT_THAT(rules_found(profile), Contains("metadata-storm"));
}

// sqlite examines the folders of a file, and looks for its journals.
TEST(MetadataStorm, IsNotALibraryThatOpensAFile) {
  Profile profile = job_of({.extension = ".db"});
  profile.loading.opens = 4000;
  profile.loading.stats = 4000 * 17;
  profile.loading.missing = 4000 * 4;
  profile.data.files_read = 1;
  EXPECT_THAT(rules_found(profile), Not(Contains("metadata-storm")));
}

TEST(LoopStall, NamesTheCallsOfTheTrainingLoop) {
  Profile profile = waiting_job(".bin");
  profile.functions = {function("fsync", wire::CallKind::kSync)};
  profile.stalls = {stall("fsync", "/out/logs")};
  const Finding finding = first(profile);
  EXPECT_EQ(finding.rule, "loop-stall");
  EXPECT_THAT(finding.title(), HasSubstr("write files (fsync)"));
  EXPECT_THAT(finding.evidence[0].text, HasSubstr("/out/logs"));
  EXPECT_EQ(finding.gain.saved_ns, kSecondNs);
}

// Only parts of a checkpoint are known if it has no region and makes very many calls.
TEST(CheckpointStall, IncludesWritesOfTheLoopToCheckpoints) {
  Profile profile = waiting_job(".bin");
  profile.functions = {function("write", wire::CallKind::kWrite)};
  profile.stalls = {stall("write", "/out/run1")};
  profile.files = {data_file("/out/run1/words.ckpt", kMiB, 0)};
  profile.files[0].kind = analyze::FileKind::kCheckpoint;
  profile.files[0].io.writes = 100'000;
  EXPECT_EQ(first_rule(profile), "loop-stall");  // no checkpoint was seen
  profile.time.job.compute_ns = 2 * kSecondNs;
  profile.checkpoints.resize(2);
  EXPECT_THAT(rules_found(profile), Contains("checkpoint-stall"));
  EXPECT_THAT(rules_found(profile), Not(Contains("loop-stall")));
  profile.files.push_back(data_file("/out/run1/log.txt", kMiB, 0));
  profile.files[1].kind = analyze::FileKind::kOutput;
  profile.files[1].io.writes = 100'001;
  EXPECT_THAT(rules_found(profile), Contains("loop-stall"));
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

// A loop that reads ten files for each step, with only these regions marked.
Profile marked_loop(const std::set<std::string>& marks) {
  using std::chrono::microseconds;
  const TemporaryDirectory directory = *TemporaryDirectory::create();
  analyze::TraceBuilder job(directory.path() / "t.mrt");
  const analyze::Program program = job.program({});
  const auto mark = [&](const std::string& name, microseconds at, microseconds takes,
                        int64_t step) {
    if (marks.contains(name)) program.region(name, {.at = at, .takes = takes, .step = step});
  };
  microseconds now{0};
  for (int step = 0; step < 120; ++step) {
    const microseconds begin = now;
    for (int i = 0; i < 10; ++i) {
      const std::string file = fmt::format("/data/{}.bin", (step * 10 + i) * 7919 % 400);
      program.open(file, {.at = now, .takes = 5us});
      program.read(file, {.at = now + 10us, .takes = 5us, .offset = 0, .size = 6000});
      program.close(file, {.at = now + 20us, .takes = 2us});
      mark("read", now, 200us, step);
      now += 200us;
    }
    mark("fetch", begin, now - begin, step);
    mark("batch_wait", begin, now - begin, step);
    mark("compute", now, 1000us, step);
    now += 1000us;
  }
  return analyze::profile_of(job.finish());
}

TEST(Marks, TheSameLoopGetsTheSameDiagnosisWhicheverRegionsAreMarked) {
  const std::set<std::string> marked[] = {{"compute"},
                                          {"fetch", "compute"},
                                          {"batch_wait"},
                                          {"batch_wait", "compute"},
                                          {"batch_wait", "fetch", "compute"},
                                          {"batch_wait", "fetch", "read", "compute"}};
  for (const std::set<std::string>& marks : marked) {
    const Finding finding = first(marked_loop(marks));
    EXPECT_EQ(finding.rule, "many-small-files") << testing::PrintToString(marks);
    EXPECT_NEAR(finding.gain.share, 0.6, 0.1) << testing::PrintToString(marks);
  }
}

}  // namespace
}  // namespace millrace::advise
