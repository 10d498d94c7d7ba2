#include "watch/job_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/io/temporary_directory.h"
#include "base/system/clock.h"
#include "trace/pack/packer.h"
#include "trace/testing/recorded_sample.h"

namespace millrace::watch {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using trace::RecordedSample;

class JobWatchTest : public testing::Test {
 protected:
  JobWatch watch() {
    auto job = JobWatch::open(path_);
    EXPECT_TRUE(job.ok()) << job.error().message();
    return *std::move(job);
  }

  static wire::TraceSlot region(wire::NameId name, uint64_t begin_ns, uint32_t duration_ns,
                                uint32_t epoch, uint64_t step) {
    wire::TraceSlot slot{};
    slot.record = {.begin_ticks = RecordedSample::ticks_at(begin_ns),
                   .offset = step,
                   .duration_ticks = 2 * duration_ns,
                   .file = name,
                   .size = epoch,
                   .call = wire::Call::kRegion,
                   .slots = 1,
                   .flags = static_cast<uint8_t>(wire::ResultForm::kZero)};
    return slot;
  }

  // Writes the session of a host with one rank that made some reads.
  void write_host(const std::string& host, int32_t rank, size_t reads, bool exited = false) {
    RecordedSample sample(path_ / host);
    std::strcpy(sample.page.host, host.c_str());
    sample.page.first.counter_ticks += static_cast<uint64_t>(rank);
    const wire::NameId file = sample.name("/data/" + host);
    const wire::NameId wait = sample.name("batch_wait");
    wire::ProcessPage page = RecordedSample::process(42);
    page.rank = rank;
    page.world_size = 2;
    page.exited = exited ? 1 : 0;
    page.lost.events = 3;
    wire::Ring ring = RecordedSample::ring(0, 0, 42, 42);
    RecordedSample::fill(ring, 0, file, reads);
    ring.slots[reads] = region(wait, 10, 100, 4, reads);
    sample.write_session();
    sample.write_process("42-f", page, {ring}, {});
  }

  void pack(const std::string& host) {
    auto packer = trace::Packer::open(path_ / host, path_ / (host + ".mrt"),
                                      {.threads = 1, .others_ended = true, .batch_bytes = 0});
    ASSERT_TRUE(packer.ok()) << packer.error().message();
    const auto packed = packer->finish();
    ASSERT_TRUE(packed.ok() && packed->session_removed);
  }

  Result<TemporaryDirectory> directory_ = TemporaryDirectory::create();
  fs::path path_ = directory_->path() / "t";
};

TEST_F(JobWatchTest, WaitsForADirectoryThatIsAbsentOrEmpty) {
  JobWatch job = watch();
  EXPECT_EQ(job.look().state, JobState::kWaiting);
  fs::create_directory(path_);
  EXPECT_EQ(job.look().state, JobState::kWaiting);
  EXPECT_EQ(watch().look().state, JobState::kWaiting);
}

TEST_F(JobWatchTest, RefusesFilesAndDirectoriesWithoutATrace) {
  fs::create_directory(path_);
  std::ofstream(path_ / "notes.txt") << "no trace";
  const auto foreign = JobWatch::open(path_);
  ASSERT_FALSE(foreign.ok());
  EXPECT_THAT(foreign.error().message(), HasSubstr("contains no trace"));
  const auto file = JobWatch::open(path_ / "notes.txt");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message(), HasSubstr("not a directory"));
}

TEST_F(JobWatchTest, CountsNewHostsFromTheirBeginning) {
  JobWatch job = watch();
  job.look();
  write_host("node1", 0, 10);
  Snapshot snapshot = job.look();
  EXPECT_EQ(snapshot.state, JobState::kRunning);
  EXPECT_EQ(snapshot.window.reads.count, 10u);
  EXPECT_EQ(snapshot.window.reads.bytes, 40960u);
  EXPECT_EQ(snapshot.hosts, 1u);
  EXPECT_EQ(snapshot.lost_events, 3u);
  write_host("node2", 1, 5);
  snapshot = job.look();
  EXPECT_EQ(snapshot.window.reads.count, 5u);
  EXPECT_EQ(snapshot.total.reads.count, 15u);
  EXPECT_EQ(snapshot.hosts, 2u);
  EXPECT_EQ(snapshot.ranks, 2u);
  EXPECT_EQ(snapshot.world_size, 2);
  ASSERT_EQ(snapshot.files.size(), 1u);
  EXPECT_EQ(snapshot.files[0].path, "/data/node2");
}

TEST_F(JobWatchTest, ATorchrunAgentIsNotARank) {
  using enum wire::RankTeller;
  JobWatch job = watch();
  job.look();
  RecordedSample sample(path_ / "node1");
  const wire::NameId file = sample.name("/data/a");
  const auto add = [&](uint32_t pid, int32_t rank, int32_t world_size, wire::RankOrigin origin) {
    wire::ProcessPage page = RecordedSample::process(pid);
    page.rank = rank;
    page.world_size = world_size;
    page.rank_origin = origin;
    page.exited = 0;
    wire::Ring ring = RecordedSample::ring(0, 0, pid, pid);
    RecordedSample::fill(ring, 0, file, 3);
    sample.write_process(std::to_string(pid) + "-f", page, {ring}, {});
  };
  add(41, 1, 9, {.told_by = kSlurm, .outer_by = kNobody, .outer_rank = 0});
  add(42, 2, 6, {.told_by = kTorchrun, .outer_by = kSlurm, .outer_rank = 1});
  add(43, 3, 6, {.told_by = kTorchrun, .outer_by = kSlurm, .outer_rank = 1});
  sample.write_session();
  const Snapshot snapshot = job.look();
  EXPECT_EQ(snapshot.ranks, 2u);
  EXPECT_EQ(snapshot.world_size, 6);
}

TEST_F(JobWatchTest, SkipsWhatWasThereAtTheFirstLook) {
  write_host("node1", 0, 10);
  JobWatch job = watch();
  EXPECT_EQ(job.look().window.reads.count, 0u);
  write_host("node1", 0, 10);
  EXPECT_EQ(job.look().total.all().count, 0u);
}

TEST_F(JobWatchTest, RegionsTellEpochStepAndWaitingOfARank) {
  JobWatch job = watch();
  job.look();
  write_host("node1", 0, 10);
  const Snapshot snapshot = job.look();
  ASSERT_EQ(snapshot.workers.size(), 1u);
  EXPECT_EQ(snapshot.workers[0].rank, 0);
  EXPECT_EQ(snapshot.workers[0].epoch, 4u);
  EXPECT_EQ(snapshot.workers[0].step, 10u);
  EXPECT_EQ(snapshot.waiting_by, WaitingBy::kRegions);
  EXPECT_GT(snapshot.waiting_share, 0);
}

// The counter ticks once per microsecond, so one event can last an hour.
TEST_F(JobWatchTest, AThreadAlwaysInACallHasConcurrencyOne) {
  JobWatch job = watch();
  job.look();
  RecordedSample sample(path_ / "node1");
  sample.page.last = sample.page.first;
  sample.page.last.counter_ticks += 1'000'000;
  sample.page.last.monotonic_ns += 1'000'000'000;
  sample.page.first.wall_ns = (wall_now() - std::chrono::minutes(1)).count();
  const wire::NameId file = sample.name("/data/a");
  sample.write_session();
  wire::ProcessPage page = RecordedSample::process(42);
  page.exited = 0;
  wire::Ring ring = RecordedSample::ring(0, 0, 42, 42);
  for (size_t slot = 0; slot < 3; ++slot) {
    ring.slots[slot] = RecordedSample::read_event(0, file, 0);
    ring.slots[slot].record.duration_ticks = 3'600'000'000;
    sample.write_process("42-f", page, {ring}, {});
    const Snapshot snapshot = job.look();
    EXPECT_EQ(snapshot.window.reads.count, 1u);
    EXPECT_EQ(snapshot.concurrency, 1.0);
    EXPECT_EQ(snapshot.waiting_share, 1.0);
  }
}

TEST_F(JobWatchTest, EndsWhenAllProcessesHaveEnded) {
  JobWatch job = watch();
  job.look();
  write_host("node1", 0, 10);
  write_host("node2", 1, 10);
  EXPECT_EQ(job.look().state, JobState::kRunning);
  write_host("node1", 0, 12, /*exited=*/true);
  EXPECT_EQ(job.look().state, JobState::kRunning);
  write_host("node2", 1, 12, /*exited=*/true);
  EXPECT_EQ(job.look().state, JobState::kEnded);
}

TEST_F(JobWatchTest, ReportsThatAJobHadEndedBefore) {
  write_host("node1", 0, 10, /*exited=*/true);
  JobWatch job = watch();
  const Snapshot snapshot = job.look();
  EXPECT_EQ(snapshot.state, JobState::kEnded);
  EXPECT_EQ(snapshot.processes, 0u);
}

TEST_F(JobWatchTest, AcceptsTheDirectoryOfASession) {
  write_host("node1", 0, 1);
  auto job = JobWatch::open(path_ / "node1");
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->look().state, JobState::kRunning);
}

TEST_F(JobWatchTest, CountsAJobThatRanBetweenTwoLooks) {
  JobWatch job = watch();
  job.look();
  write_host("node1", 0, 10, /*exited=*/true);
  pack("node1");
  const Snapshot snapshot = job.look();
  EXPECT_EQ(snapshot.state, JobState::kEnded);
  EXPECT_EQ(snapshot.total.reads.count, 10u);
  EXPECT_THAT(snapshot.problems, IsEmpty());
  EXPECT_EQ(job.look().total.reads.count, 10u);
}

TEST_F(JobWatchTest, CountsItEvenIfItsDirectoryIsHalfRemoved) {
  JobWatch job = watch();
  job.look();
  write_host("node1", 0, 10, /*exited=*/true);
  pack("node1");
  fs::create_directory(path_ / "node1");
  EXPECT_EQ(job.look().total.reads.count, 10u);
}

TEST_F(JobWatchTest, HasNotEndedIfOnlyANewPackedFileIsSeen) {
  JobWatch job = watch();
  job.look();
  fs::create_directory(path_);
  std::ofstream(path_ / "node1.mrt").flush();
  EXPECT_EQ(job.look().state, JobState::kWaiting);
  write_host("node1", 0, 10);
  const Snapshot snapshot = job.look();
  EXPECT_EQ(snapshot.state, JobState::kRunning);
  EXPECT_EQ(snapshot.total.reads.count, 10u);
  EXPECT_THAT(snapshot.problems, IsEmpty());
}

TEST_F(JobWatchTest, DoesNotCountAnEarlierTrace) {
  write_host("node1", 0, 10, /*exited=*/true);
  pack("node1");
  JobWatch job = watch();
  EXPECT_EQ(job.look().state, JobState::kEnded);
  EXPECT_EQ(job.look().total.all().count, 0u);
}

TEST_F(JobWatchTest, ReportsAFileThatIsNotAPackedRecordingOnce) {
  JobWatch job = watch();
  job.look();
  write_host("node1", 0, 10);
  std::ofstream(path_ / "other.mrt") << "nonsense";
  std::vector<std::string> problems;
  for (int i = 0; i < 4; ++i) {
    for (const std::string& problem : job.look().problems) problems.push_back(problem);
  }
  EXPECT_THAT(problems, ElementsAre(HasSubstr("other.mrt")));
}

TEST_F(JobWatchTest, ASessionThatIsBeingCreatedIsNoProblem) {
  JobWatch job = watch();
  fs::create_directories(path_ / "node1");
  std::ofstream(path_ / "node1" / "session").flush();
  for (int i = 0; i < 3; ++i) {
    const Snapshot snapshot = job.look();
    EXPECT_EQ(snapshot.state, JobState::kWaiting);
    EXPECT_THAT(snapshot.problems, IsEmpty());
  }
  write_host("node1", 0, 10);
  EXPECT_EQ(job.look().total.reads.count, 10u);
}

TEST_F(JobWatchTest, ReportsGarbageOnceAndUsesTheRest) {
  fs::create_directories(path_ / "broken");
  std::ofstream(path_ / "broken" / "session") << "nonsense";
  JobWatch job = watch();
  job.look();
  write_host("node1", 0, 10);
  const Snapshot snapshot = job.look();
  EXPECT_EQ(snapshot.window.reads.count, 10u);
  EXPECT_THAT(snapshot.problems, ElementsAre(HasSubstr("broken/session")));
  EXPECT_THAT(job.look().problems, IsEmpty());
}

}  // namespace
}  // namespace millrace::watch
