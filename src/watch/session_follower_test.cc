#include "watch/session_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <utility>

#include "base/io/temporary_directory.h"
#include "trace/pack/packer.h"
#include "trace/testing/recorded_sample.h"

namespace millrace::watch {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using trace::RecordedSample;
using wire::kRingSlots;
using wire::Ring;

// A process that does nothing until it is killed.
class LivingProcess {
 public:
  LivingProcess() : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it dies with a test that crashes
    while (true) pause();
  }
  ~LivingProcess() { end(); }
  LivingProcess(const LivingProcess&) = delete;
  LivingProcess& operator=(const LivingProcess&) = delete;

  pid_t pid() const { return pid_; }
  void end() const {
    // Only once: afterwards its pid may belong to another process.
    if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

 private:
  pid_t pid_;
};

class SessionFollowerTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = sample_.name("dataset/a");
    process_.exited = 0;  // on another host, so it counts as running
    sample_.write_session();
  }

  // `count` reads, numbered from `first`, a microsecond apart.
  Ring ring(uint64_t sequence, uint64_t first, size_t count) {
    Ring ring = RecordedSample::ring(0, sequence, 42, 42);
    RecordedSample::fill(ring, 1000 * first, file_, count);
    return ring;
  }

  void write(const Ring& now, const std::vector<Ring>& log = {}) {
    sample_.write_process("42-f", process_, {now}, log);
  }

  SessionFollower follow(SessionFollower::Start start = SessionFollower::Start::kBeginning) {
    auto follower = SessionFollower::open(sample_.directory(), start);
    EXPECT_TRUE(follower.ok()) << follower.error().message();
    return *std::move(follower);
  }

  void write_session_of_this_boot() {
    std::strcpy(sample_.page.boot_id, trace::this_host().boot_id.c_str());
    ASSERT_STRNE(sample_.page.boot_id, "");
    sample_.write_session();
  }

  // Returns the numbers of the reads that a look delivers. Checks the file of each.
  static std::vector<uint64_t> look(SessionFollower& follower) {
    std::vector<uint64_t> numbers;
    follower.look([&](size_t, const trace::EventColumns& events) {
      for (size_t i = 0; i < events.size_events(); ++i) {
        numbers.push_back(events.begin_ns[i] / 1000);
        EXPECT_EQ(follower.name(events.file[i]), "dataset/a");
        EXPECT_EQ(events.result[i], 4096);
        EXPECT_EQ(events.thread[i], trace::ThreadIndex{42});
      }
    });
    return numbers;
  }

  static std::vector<uint64_t> numbers(uint64_t first, uint64_t end) {
    std::vector<uint64_t> all;
    for (uint64_t i = first; i < end; ++i) all.push_back(i);
    return all;
  }

  trace::Packer packer() {
    auto packer = trace::Packer::open(sample_.directory(), packed_,
                                      {.threads = 1, .others_ended = true, .batch_bytes = 0});
    EXPECT_TRUE(packer.ok()) << packer.error().message();
    return *std::move(packer);
  }

  Result<TemporaryDirectory> directory_ = TemporaryDirectory::create();
  RecordedSample sample_{directory_->path() / "node7-1"};
  fs::path packed_ = directory_->path() / "node7-1.mrt";
  wire::NameId file_{};
  wire::ProcessPage process_ = RecordedSample::process(42);
};

TEST_F(SessionFollowerTest, DeliversWhatIsNewSinceThePreviousLook) {
  SessionFollower follower = follow();
  EXPECT_THAT(look(follower), IsEmpty());
  write(ring(0, 0, 10));
  EXPECT_EQ(look(follower), numbers(0, 10));
  write(ring(0, 0, 25));
  EXPECT_EQ(look(follower), numbers(10, 25));
  write(ring(1, kRingSlots, 5), {ring(0, 0, kRingSlots)});
  EXPECT_EQ(look(follower), numbers(25, kRingSlots + 5));
  EXPECT_THAT(follower.take_problems(), IsEmpty());
  EXPECT_FALSE(follower.has_ended());
}

TEST_F(SessionFollowerTest, StartNowSkipsEarlierEvents) {
  write(ring(0, 0, 10));
  SessionFollower follower = follow(SessionFollower::Start::kNow);
  EXPECT_THAT(look(follower), IsEmpty());
  write(ring(0, 0, 12));
  EXPECT_EQ(look(follower), numbers(10, 12));
}

TEST_F(SessionFollowerTest, ReadsFromThePackedFileWhatWasPackedFirst) {
  SessionFollower follower = follow();
  write(ring(0, 0, 100));
  EXPECT_EQ(look(follower), numbers(0, 100));
  write(ring(2, 2 * kRingSlots, 7), {ring(0, 0, kRingSlots), ring(1, kRingSlots, kRingSlots)});
  trace::Packer packer = this->packer();
  ASSERT_TRUE(packer.pack_available().ok());
  EXPECT_EQ(look(follower), numbers(100, 2 * kRingSlots + 7));
  EXPECT_THAT(look(follower), IsEmpty());
  EXPECT_THAT(follower.take_problems(), IsEmpty());
}

TEST_F(SessionFollowerTest, DeliversNothingTwiceIfItIsPackedLater) {
  SessionFollower follower = follow();
  write(ring(1, kRingSlots, 3), {ring(0, 0, kRingSlots)});
  EXPECT_EQ(look(follower), numbers(0, kRingSlots + 3));
  trace::Packer packer = this->packer();
  ASSERT_TRUE(packer.pack_available().ok());
  EXPECT_THAT(look(follower), IsEmpty());
  ASSERT_TRUE(packer.finish().ok());
  EXPECT_THAT(look(follower), IsEmpty());
  EXPECT_TRUE(follower.has_ended());
  EXPECT_THAT(follower.take_problems(), IsEmpty());
}

TEST_F(SessionFollowerTest, ReadsAPackedAndRemovedSessionToItsEnd) {
  SessionFollower follower = follow();
  write(ring(0, 0, 100));
  look(follower);
  write(ring(1, kRingSlots, 3), {ring(0, 0, kRingSlots)});
  // Another process started and ended without being seen.
  Ring other = RecordedSample::ring(0, 0, 42, 42);
  RecordedSample::fill(other, 1000 * 9000, file_, 2);
  sample_.write_process("77-f", RecordedSample::process(77), {other}, {});
  trace::Packer packer = this->packer();
  const auto packed = packer.finish();
  ASSERT_TRUE(packed.ok() && packed->session_removed);
  std::vector<uint64_t> expected = numbers(100, kRingSlots + 3);
  expected.push_back(9000);
  expected.push_back(9001);
  EXPECT_THAT(look(follower), testing::UnorderedElementsAreArray(expected));
  EXPECT_TRUE(follower.has_ended());
  EXPECT_THAT(look(follower), IsEmpty());
  EXPECT_THAT(follower.take_problems(), IsEmpty());
}

// If the packer is fast or the reader slow, recordings disappear while they are read.
TEST_F(SessionFollowerTest, DeliversOnceWhatIsPackedAndRemovedDuringALook) {
  std::vector<RecordedSample::Child> children;
  for (uint32_t pid = 100; pid < 105; ++pid) {
    Ring ring = RecordedSample::ring(0, 0, pid, 42);
    RecordedSample::fill(ring, 1000 * (pid - 100) * 10, file_, 10);
    children.push_back({RecordedSample::process(pid), ring});
  }
  sample_.write_child_pages("areas-42-f", children);
  write(ring(0, 50, 1));  // their parent, which still runs and keeps the file of child pages
  SessionFollower follower = follow();
  auto packer = trace::Packer::open(sample_.directory(), packed_);
  ASSERT_TRUE(packer.ok()) << packer.error().message();
  std::vector<uint64_t> delivered;
  const auto take = [&](size_t, const trace::EventColumns& events) {
    for (const uint64_t begin_ns : events.begin_ns) delivered.push_back(begin_ns / 1000);
  };
  bool is_packed = false;
  follower.look([&](size_t process, const trace::EventColumns& events) {
    take(process, events);
    if (std::exchange(is_packed, true)) return;
    const auto packed = packer->finish();
    ASSERT_TRUE(packed.ok() && packed->events == 50);
  });
  follower.look(take);
  EXPECT_THAT(delivered, testing::UnorderedElementsAreArray(numbers(0, 51)));
  EXPECT_THAT(follower.take_problems(), IsEmpty());
}

TEST_F(SessionFollowerTest, ReadsANewPackedFileOnceItIsWritten) {
  write(ring(0, 0, 10));
  std::ofstream(packed_).flush();
  SessionFollower follower = follow();
  trace::Packer packer = this->packer();
  ASSERT_TRUE(packer.finish().ok());
  EXPECT_EQ(look(follower), numbers(0, 10));
  EXPECT_THAT(follower.take_problems(), IsEmpty());
}

TEST_F(SessionFollowerTest, HasNotEndedIfTheLauncherEndedAfterTheLook) {
  const LivingProcess launcher;
  ASSERT_GT(launcher.pid(), 0);
  sample_.page.launcher_pid = static_cast<uint32_t>(launcher.pid());
  write_session_of_this_boot();
  SessionFollower follower = follow();
  EXPECT_THAT(look(follower), IsEmpty());
  launcher.end();
  // What it recorded meanwhile was not read yet.
  EXPECT_FALSE(follower.has_ended());
  look(follower);
  EXPECT_TRUE(follower.has_ended());
}

TEST_F(SessionFollowerTest, FollowsAPackedFileWithoutItsSession) {
  write(ring(1, kRingSlots, 3), {ring(0, 0, kRingSlots)});
  ASSERT_TRUE(packer().finish().ok());
  auto follower = SessionFollower::open_packed(packed_);
  ASSERT_TRUE(follower.ok()) << follower.error().message();
  EXPECT_EQ(follower->directory(), sample_.directory());
  EXPECT_EQ(follower->page().levels, sample_.page.levels);
  EXPECT_EQ(look(*follower), numbers(0, kRingSlots + 3));
  EXPECT_TRUE(follower->has_ended());
  EXPECT_THAT(look(*follower), IsEmpty());
  EXPECT_THAT(follower->take_problems(), IsEmpty());
}

TEST_F(SessionFollowerTest, RefusesATraceThatIsNotAPackedRecording) {
  std::ofstream(packed_) << "nonsense";
  const auto follower = SessionFollower::open_packed(packed_);
  ASSERT_FALSE(follower.ok());
  EXPECT_THAT(follower.error().message(), HasSubstr("node7-1.mrt"));
}

TEST_F(SessionFollowerTest, ReportsARecordingThatWasRemovedUnpacked) {
  SessionFollower follower = follow();
  write(ring(0, 0, 5));
  look(follower);
  fs::remove_all(sample_.directory());
  EXPECT_THAT(look(follower), IsEmpty());
  EXPECT_TRUE(follower.has_ended());
  EXPECT_THAT(follower.take_problems(),
              ElementsAre(HasSubstr("does not contain the last events of 1 of its processes")));
}

TEST_F(SessionFollowerTest, ReportsGarbageAndReadsTheRest) {
  write(ring(0, 0, 5));
  std::ofstream(sample_.directory() / "99-f.rings") << "this is no recording";
  std::ofstream(sample_.directory() / "98-f.rings") << "";
  SessionFollower follower = follow();
  EXPECT_EQ(look(follower), numbers(0, 5));
  look(follower);
  EXPECT_THAT(follower.take_problems(),
              testing::UnorderedElementsAre(HasSubstr("99-f.rings"), HasSubstr("98-f.rings")));
}

TEST_F(SessionFollowerTest, APageThatALiveProcessIsStillWritingIsNoProblem) {
  const LivingProcess process;
  ASSERT_GT(process.pid(), 0);
  write_session_of_this_boot();
  const std::string name = fmt::format("{}-f", process.pid());
  const fs::path file = sample_.directory() / (name + ".rings");
  std::ofstream(file).flush();
  SessionFollower follower = follow();
  for (int i = 0; i < 3; ++i) look(follower);
  fs::resize_file(file, wire::ring_offset(1));  // its space exists, its page does not
  for (int i = 0; i < 3; ++i) look(follower);
  EXPECT_THAT(follower.take_problems(), IsEmpty());
  EXPECT_FALSE(follower.has_ended());
  process_.pid = static_cast<uint32_t>(process.pid());
  sample_.write_process(name, process_, {ring(0, 0, 5)}, {});
  EXPECT_EQ(look(follower), numbers(0, 5));
  EXPECT_THAT(follower.take_problems(), IsEmpty());
}

TEST_F(SessionFollowerTest, ReportsAnUnfinishedPageOnceItsProcessHasEnded) {
  const LivingProcess process;
  ASSERT_GT(process.pid(), 0);
  write_session_of_this_boot();
  const fs::path file = sample_.directory() / fmt::format("{}-f.rings", process.pid());
  std::ofstream(file).flush();
  SessionFollower follower = follow();
  look(follower);
  process.end();
  for (int i = 0; i < 2; ++i) look(follower);
  EXPECT_THAT(follower.take_problems(), ElementsAre(HasSubstr(file.filename().string())));
  EXPECT_TRUE(follower.has_ended());
}

TEST_F(SessionFollowerTest, ReportsGarbageEvenIfTheProcessOfItsNameIsAlive) {
  write_session_of_this_boot();
  std::ofstream(sample_.directory() / fmt::format("{}-f.rings", getpid())) << "nonsense";
  SessionFollower follower = follow();
  for (int i = 0; i < 2; ++i) look(follower);
  EXPECT_THAT(follower.take_problems(), ElementsAre(HasSubstr("-f.rings")));
}

TEST_F(SessionFollowerTest, ReadsATruncatedLogOnceItsProcessHasEnded) {
  process_.exited = 1;
  sample_.write_process("42-f", process_, {ring(1, kRingSlots, 3)}, {ring(0, 0, kRingSlots)},
                        /*log_bytes_cut=*/32 * 46);
  SessionFollower follower = follow();
  std::vector<uint64_t> expected = numbers(0, 2000);
  for (const uint64_t number : numbers(kRingSlots, kRingSlots + 3)) expected.push_back(number);
  EXPECT_EQ(look(follower), expected);
  EXPECT_TRUE(follower.has_ended());
}

TEST_F(SessionFollowerTest, RefusesAFileThatIsNotASession) {
  std::ofstream(sample_.directory() / "session") << "nonsense";
  const auto follower =
      SessionFollower::open(sample_.directory(), SessionFollower::Start::kBeginning);
  ASSERT_FALSE(follower.ok());
  EXPECT_THAT(follower.error().message(), HasSubstr("session"));
}

}  // namespace
}  // namespace millrace::watch
