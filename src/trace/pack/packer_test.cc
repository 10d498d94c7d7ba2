#include "trace/pack/packer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/io/temporary_directory.h"
#include "trace/read/packed_trace.h"
#include "trace/record/session_directory.h"
#include "trace/testing/recorded_sample.h"
#include "trace/trace.h"

namespace millrace::trace {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::Ring;

class PackerTest : public testing::Test {
 protected:
  void SetUp() override { file_ = sample_.name("dataset/a"); }

  Ring ring(uint32_t number, uint64_t sequence, uint32_t pid, uint64_t first_ns, size_t count) {
    Ring ring = RecordedSample::ring(number, sequence, pid, pid + number);
    RecordedSample::fill(ring, first_ns, file_, count);
    return ring;
  }

  // The sorted begins of all events that are in the directory now.
  std::vector<uint64_t> all_begins() {
    const auto trace = Trace::open(directory_->path().string());
    EXPECT_TRUE(trace.ok()) << trace.error().message();
    if (!trace.ok()) return {};
    EXPECT_THAT(trace->problems(), IsEmpty());
    std::vector<uint64_t> all;
    EventColumns columns;
    for (size_t i = 0; i < trace->blocks().size(); ++i) {
      const Status status = trace->read_block(i, columns);
      EXPECT_TRUE(status.ok()) << status.error().message();
      all.insert(all.end(), columns.begin_ns.begin(), columns.begin_ns.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  Packer open(PackOptions options = {.threads = 2, .batch_bytes = 0}) {
    auto packer = Packer::open(sample_.directory(), output_, options);
    EXPECT_TRUE(packer.ok()) << packer.error().message();
    return *std::move(packer);
  }

  // A page of this process, which lives as long as the test.
  wire::ProcessPage living() {
    sample_.page.first = {wire::monotonic_clock_ns(), wire::monotonic_clock_ns(), 0, 50};
    sample_.page.counter = wire::CounterSource::kMonotonicClock;
    sample_.page.last = {};
    std::strcpy(sample_.page.boot_id, this_host().boot_id.c_str());
    std::strcpy(sample_.page.host, this_host().name.c_str());
    wire::ProcessPage page = RecordedSample::process(static_cast<uint32_t>(getpid()));
    page.exited = 0;
    return page;
  }

  Result<TemporaryDirectory> directory_ = TemporaryDirectory::create();
  RecordedSample sample_{directory_->path() / "node7-11111111"};
  fs::path output_ = directory_->path() / "node7-11111111.mrt";
  wire::NameId file_{};
};

TEST_F(PackerTest, PackingKeepsEveryEventAndRemovesTheRecording) {
  sample_.write_process("42-f4240", RecordedSample::process(42),
                        {ring(0, 2, 42, 90'000'000, 10), ring(1, 0, 42, 95'000'000, 3)},
                        {ring(0, 0, 42, 1000, 2046), ring(0, 1, 42, 40'000'000, 2046)});
  sample_.write_session();
  const auto before = all_begins();
  EXPECT_THAT(before, SizeIs(4105));
  Packer packer = open();
  const auto outcome = packer.finish();
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_EQ(outcome->events, 4105u);
  EXPECT_THAT(outcome->running, IsEmpty());
  EXPECT_TRUE(outcome->session_removed);
  EXPECT_FALSE(fs::exists(sample_.directory()));
  EXPECT_EQ(all_begins(), before);
  const auto trace = Trace::open(output_.string());
  EXPECT_TRUE(trace->processes()[0].exited);
  EXPECT_EQ(trace->threads().size(), 2u);
}

TEST_F(PackerTest, APackedFileIsPrivateWhateverTheUmask) {
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 0, 42, 1000, 10)}, {});
  sample_.write_session();
  for (const mode_t mask : {022, 000}) {
    const mode_t before = umask(mask);
    open();
    umask(before);
    struct stat info{};
    ASSERT_EQ(stat(output_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0600u);
    fs::remove(output_);
  }
}

TEST_F(PackerTest, ARecordingOfAnotherUserIsNotPacked) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a directory to another user";
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 0, 42, 1000, 10)}, {});
  sample_.write_session();
  ASSERT_EQ(chown(sample_.directory().c_str(), 65534, 65534), 0);
  const auto packer = Packer::open(sample_.directory(), output_);
  ASSERT_FALSE(packer.ok());
  EXPECT_THAT(packer.error().message(), HasSubstr("belongs to user 65534; pack it as that user"));
  EXPECT_FALSE(fs::exists(output_));
  std::ofstream(output_).flush();  // an empty file that was there stays
  EXPECT_FALSE(Packer::open(sample_.directory(), output_).ok());
  EXPECT_TRUE(fs::exists(output_));
}

TEST_F(PackerTest, ASymbolicLinkAsOutputIsNotFollowed) {
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 0, 42, 1000, 10)}, {});
  sample_.write_session();
  fs::create_symlink(directory_->path() / "elsewhere", output_);
  EXPECT_FALSE(Packer::open(sample_.directory(), output_).ok());
  EXPECT_FALSE(fs::exists(directory_->path() / "elsewhere"));
}

TEST_F(PackerTest, APackedFileCanBeReadWhileItsPackerWrites) {
  wire::ProcessPage page = RecordedSample::process(42);
  page.exited = 0;
  sample_.write_process("42-f4240", page, {ring(0, 1, 42, 90'000'000, 0)},
                        {ring(0, 0, 42, 1000, 2046)});
  sample_.write_session();
  Packer packer = open();
  auto source = ByteSource::from_file(output_.string());
  ASSERT_TRUE(source.ok());
  auto file = PackedTrace::open(*std::move(source), "t");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_THAT(file->event_blocks(), IsEmpty());

  ASSERT_TRUE(packer.pack_available().ok());
  ASSERT_TRUE(file->read_on().ok());
  ASSERT_THAT(file->event_blocks(), SizeIs(1));
  EXPECT_EQ(file->event_blocks()[0].header.count, 2046u);
  EXPECT_EQ(file->consumed().at("42-f4240").log_bytes, sizeof(Ring));

  ASSERT_TRUE(file->read_on().ok());
  EXPECT_THAT(file->event_blocks(), SizeIs(1));
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 1, 42, 90'000'000, 5)},
                        {});
  ASSERT_TRUE(packer.finish().ok());
  ASSERT_TRUE(file->read_on().ok());
  EXPECT_THAT(file->event_blocks(), SizeIs(2));
  EXPECT_TRUE(file->consumed().at("42-f4240").done);
  EventColumns columns;
  ASSERT_TRUE(file->read(1, columns).ok());
  EXPECT_EQ(columns.size_events(), 5u);
  EXPECT_THAT(file->problems(), IsEmpty());
}

// A packer stopped between its commit and the deletion leaves the files. No event may appear twice.
TEST_F(PackerTest, FilesLeftAfterTheCommitAreNotReadAgain) {
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 1, 42, 90'000'000, 10)},
                        {ring(0, 0, 42, 1000, 2046)});
  sample_.write_session();
  const auto before = all_begins();
  const fs::path copy = directory_->path() / "kept";
  fs::copy(sample_.directory(), copy, fs::copy_options::recursive);
  ASSERT_TRUE(open().finish().ok());
  fs::rename(copy, sample_.directory());
  EXPECT_EQ(all_begins(), before);
  const auto again = open().finish();
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(again->events, 0u);
  EXPECT_FALSE(fs::exists(sample_.directory()));
  EXPECT_EQ(all_begins(), before);
}

// Stopped at any byte of the packed trace: what is not committed is read from the recording.
TEST_F(PackerTest, APackerStoppedAnywhereLosesAndRepeatsNothing) {
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 1, 42, 90'000'000, 10)},
                        {ring(0, 0, 42, 1000, 100)});
  sample_.write_process("43-f4240", RecordedSample::process(43), {ring(0, 0, 43, 500, 20)}, {});
  sample_.write_session();
  const auto before = all_begins();
  const fs::path copy = directory_->path() / "kept";
  fs::copy(sample_.directory(), copy, fs::copy_options::recursive);
  ASSERT_TRUE(open().finish().ok());
  const std::string packed = *read_file(output_);
  fs::rename(copy, sample_.directory());
  for (size_t length = 64; length < packed.size(); length += 7) {
    std::ofstream(output_, std::ios::binary)
        .write(packed.data(), static_cast<std::streamsize>(length));
    const auto trace = Trace::open(directory_->path().string());
    ASSERT_TRUE(trace.ok());
    EXPECT_EQ(trace->event_count(), before.size()) << length;
  }
  // Another packer continues from there.
  for (const size_t length : {packed.size() / 3, packed.size() / 2, packed.size() - 30}) {
    std::ofstream(output_, std::ios::binary)
        .write(packed.data(), static_cast<std::streamsize>(length));
    fs::copy(sample_.directory(), copy, fs::copy_options::recursive);
    const auto outcome = open().finish();
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_EQ(all_begins(), before) << length;
    fs::rename(copy, sample_.directory());
  }
}

TEST_F(PackerTest, ALogIsPackedWhileItsProcessRuns) {
  const wire::ProcessPage page = living();
  const std::string name = "7-1";
  const auto pid = page.pid;
  sample_.write_process(name, page, {ring(0, 1, pid, 90'000'000, 10)},
                        {ring(0, 0, pid, 1000, 2046)});
  sample_.write_session();
  EXPECT_THAT(all_begins(), SizeIs(2056));
  Packer packer = open();
  auto outcome = packer.pack_available();
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_EQ(outcome->events, 2046u);
  EXPECT_THAT(outcome->running, SizeIs(1));
  EXPECT_THAT(all_begins(), SizeIs(2056));
  struct stat status{};
  ASSERT_EQ(stat((sample_.directory() / (name + ".log")).c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 65536);
  EXPECT_LT(status.st_blocks, 16);  // a hole
  // The ring is written to the log, and a third one begins.
  sample_.write_process(name, page, {ring(0, 2, pid, 99'000'000, 1)},
                        {ring(0, 0, pid, 1000, 2046), ring(0, 1, pid, 90'000'000, 10)});
  EXPECT_THAT(all_begins(), SizeIs(2057));
  outcome = packer.pack_available();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->events, 10u);
  EXPECT_THAT(all_begins(), SizeIs(2057));
  outcome = packer.finish();
  ASSERT_TRUE(outcome.ok());
  EXPECT_THAT(outcome->running, SizeIs(1));
  EXPECT_TRUE(fs::exists(sample_.directory()));
  // The process ends.
  wire::ProcessPage ended = page;
  ended.start_time = 1;
  ended.exited = 1;
  ended.exit_code = 3;
  sample_.write_process(name, ended, {ring(0, 2, pid, 99'000'000, 1)},
                        {ring(0, 0, pid, 1000, 2046), ring(0, 1, pid, 90'000'000, 10)});
  outcome = packer.finish();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->events, 1u);
  EXPECT_FALSE(fs::exists(sample_.directory()));
  EXPECT_THAT(all_begins(), SizeIs(2057));
  EXPECT_EQ(Trace::open(output_.string())->processes()[0].exit_code, 3);
}

TEST_F(PackerTest, AProgramRecordedFromInsideAndOutsideIsStillRunning) {
  wire::ProcessPage outside = living();
  outside.recorded_from = wire::RecordedFrom::kOutside;
  wire::ProcessPage inside = outside;
  inside.recorded_from = wire::RecordedFrom::kInside;
  inside.start_ticks = outside.start_ticks + 100;
  const auto pid = outside.pid;
  sample_.write_process("7-1", outside, {ring(0, 0, pid, 1000, 10)}, {});
  sample_.write_process("7-2", inside, {ring(0, 0, pid, 1500, 10)}, {});
  sample_.write_session();
  const auto outcome = open().finish();
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_THAT(outcome->running, SizeIs(2));
  EXPECT_TRUE(fs::exists(sample_.directory() / "7-1.rings"));
}

TEST_F(PackerTest, AProgramRecordedFromInsideAndOutsideIsPackedAsOneProcess) {
  wire::ProcessPage outside = RecordedSample::process(42);
  outside.recorded_from = wire::RecordedFrom::kOutside;
  outside.exit_code = 3;
  wire::ProcessPage inside = RecordedSample::process(42);
  inside.start_ticks += 100;
  inside.rank = 5;
  inside.world_size = 8;
  sample_.write_process("42-1", outside, {ring(0, 0, 42, 1000, 10)}, {});
  sample_.write_process("42-2", inside, {ring(0, 0, 42, 1500, 10)}, {});
  sample_.write_session();
  ASSERT_TRUE(open().finish().ok());
  EXPECT_FALSE(fs::exists(sample_.directory()));
  EXPECT_THAT(all_begins(), SizeIs(20));
  const auto trace = Trace::open(output_.string());
  ASSERT_TRUE(trace.ok());
  ASSERT_THAT(trace->processes(), SizeIs(1));
  EXPECT_EQ(trace->processes()[0].exit_code, 3);
  EXPECT_EQ(trace->processes()[0].rank, 5);
  EXPECT_THAT(trace->threads(), SizeIs(1));
}

TEST_F(PackerTest, AnAgentThatStartsRanksIsNotARankBeforeAndAfterPacking) {
  using enum wire::RankTeller;
  const auto add = [&](uint32_t pid, int32_t rank, int32_t world_size, wire::RankOrigin origin) {
    wire::ProcessPage page = RecordedSample::process(pid);
    page.rank = rank;
    page.world_size = world_size;
    page.rank_origin = origin;
    sample_.write_process(fmt::format("{}-1", pid), page, {ring(0, 0, pid, 1000, 10)}, {});
  };
  add(41, 1, 3, {.told_by = kOpenMpi, .outer_by = kPmix, .outer_rank = 1});      // the agent
  add(42, 2, 6, {.told_by = kTorchrun, .outer_by = kOpenMpi, .outer_rank = 1});  // its workers
  add(43, 3, 6, {.told_by = kProgram, .outer_by = kOpenMpi, .outer_rank = 1});
  add(44, 2, 3, {.told_by = kOpenMpi, .outer_by = kPmix, .outer_rank = 2});    // another task
  add(45, 1, 3, {.told_by = kProgram, .outer_by = kNobody, .outer_rank = 0});  // rank from MPI
  sample_.write_session();
  const auto ranks = [&] {
    std::map<uint32_t, int32_t> found;
    const auto trace = Trace::open(directory_->path().string());
    EXPECT_TRUE(trace.ok()) << trace.error().message();
    for (const Process& process : trace->processes()) found[process.pid] = process.rank;
    return found;
  };
  const std::map<uint32_t, int32_t> expected = {{41, -1}, {42, 2}, {43, 3}, {44, 2}, {45, 1}};
  EXPECT_EQ(ranks(), expected);
  ASSERT_TRUE(open().finish().ok());
  EXPECT_FALSE(fs::exists(sample_.directory()));
  EXPECT_EQ(ranks(), expected);
}

TEST_F(PackerTest, AProcessOnAnotherHostIsKeptUnlessDeclaredEnded) {
  wire::ProcessPage page = RecordedSample::process(42);
  page.exited = 0;
  sample_.write_process("42-f4240", page, {ring(0, 0, 42, 1000, 10)}, {});
  sample_.write_session();
  auto outcome = open().finish();
  ASSERT_TRUE(outcome.ok());
  ASSERT_THAT(outcome->running, SizeIs(1));
  EXPECT_EQ(outcome->running[0].host, "node7");
  outcome = open({.others_ended = true}).finish();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->events, 10u);
}

// An idle child of the test. The destructor kills it.
class IdleChild {
 public:
  // Calls `begin` in the child before it idles. Returns when `begin` has returned or called exec:
  // both close the pipe.
  template <typename Begin>
  explicit IdleChild(Begin begin) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      begin();
      ::close(ends[1]);
      ::close(ends[0]);
      for (;;) pause();
    }
    ::close(ends[1]);
    char nothing = 0;
    EXPECT_EQ(read(ends[0], &nothing, 1), 0);
    ::close(ends[0]);
  }
  ~IdleChild() { end(); }

  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  uint32_t pid() const { return static_cast<uint32_t>(pid_); }

 private:
  pid_t pid_ = 0;
};

// Maps the file like a recorder; children inherit the mapping.
void* map_shared(const fs::path& path) {
  const auto file = File::open(path, O_RDWR);
  EXPECT_TRUE(file.ok());
  return mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd(), 0);
}

TEST_F(PackerTest, FilesOfOthersInASessionStay) {
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 0, 42, 1000, 10)}, {});
  sample_.write_session();
  fs::create_directory(sample_.directory() / "notes");
  fs::copy_file(sample_.directory() / "42-f4240.rings", sample_.directory() / "copy.rings");
  for (const char* name : {"train.log", "notes/a", "12.log", "2026-11.log", "session.notes"}) {
    std::ofstream(sample_.directory() / name) << "mine";
  }
  const auto outcome = open().finish();
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_FALSE(outcome->session_removed);
  EXPECT_THAT(outcome->problems, ElementsAre(HasSubstr("has files that are not of the recording")));
  for (const char* name : {"train.log", "notes/a", "12.log", "2026-11.log", "session.notes"}) {
    EXPECT_EQ(*read_file(sample_.directory() / name), "mine");
  }
  EXPECT_TRUE(fs::exists(sample_.directory() / "copy.rings"));
  EXPECT_FALSE(fs::exists(sample_.directory() / "session"));
  EXPECT_THAT(all_begins(), SizeIs(20));
}

TEST_F(PackerTest, AFileThatASessionLinksToIsNotChanged) {
  for (const bool is_symbolic : {true, false}) {
    const wire::ProcessPage page = living();
    sample_.write_process(
        "7-1", page, {ring(0, 4, page.pid, 90'000'000, 10)},
        {ring(0, 0, page.pid, 1000, 2046), ring(0, 1, page.pid, 20'000'000, 2046),
         ring(0, 2, page.pid, 40'000'000, 2046), ring(0, 3, page.pid, 60'000'000, 2046)});
    sample_.write_session();
    const fs::path log = sample_.directory() / "7-1.log";
    const fs::path precious = directory_->path() / "precious";
    fs::rename(log, precious);
    is_symbolic ? fs::create_symlink(precious, log) : fs::create_hard_link(precious, log);
    const std::string before = *read_file(precious);
    const auto outcome = open().finish();
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_GT(outcome->events, 8000u);
    EXPECT_THAT(outcome->running, SizeIs(1));
    EXPECT_EQ(*read_file(precious), before);
    fs::remove(output_);
    fs::remove_all(sample_.directory());
    fs::create_directory(sample_.directory());
  }
}

TEST_F(PackerTest, AForkedChildThatHasRecordedNothingYetKeepsTheSession) {
  wire::ProcessPage page = living();
  page.start_time = 1;  // belongs to an earlier process with this PID, which has ended
  sample_.write_process("7-1", page, {ring(0, 0, page.pid, 1000, 10)}, {});
  sample_.write_session();
  void* memory = map_shared(sample_.directory() / "session");
  ASSERT_NE(memory, MAP_FAILED);
  IdleChild child([] {});
  munmap(memory, 4096);
  for (int i = 0; i < 2; ++i) {  // also with a packer that has not seen the parent
    const auto outcome = open().finish();
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    ASSERT_THAT(outcome->running, SizeIs(1));
    EXPECT_EQ(outcome->running[0].pid, child.pid());
    EXPECT_FALSE(outcome->session_removed);
    EXPECT_TRUE(fs::exists(sample_.directory() / "session"));
  }
  child.end();
  const auto outcome = open().finish();
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->session_removed);
  EXPECT_THAT(all_begins(), SizeIs(10));
}

TEST_F(PackerTest, AProgramThatHasNotLoadedTheRecorderYetKeepsTheSession) {
  living();
  sample_.write_session();
  const std::string variable = "MILLRACE_TRACE_SESSION=" + sample_.directory().string();
  IdleChild child([&] {
    const char* const environment[] = {variable.c_str(), nullptr};
    execle("/bin/sleep", "sleep", "1000", nullptr, environment);
  });
  const auto outcome = open().finish();
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  ASSERT_THAT(outcome->running, SizeIs(1));
  EXPECT_EQ(outcome->running[0].pid, child.pid());
  EXPECT_EQ(outcome->running[0].command, "sleep 1000");
  child.end();
  const auto again = open().finish();
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->session_removed);
}

TEST_F(PackerTest, AChildOfAnotherSessionKeepsOnlyItsOwn) {
  living();
  sample_.write_session();
  RecordedSample other(directory_->path() / "other");
  other.write_session();
  void* memory = map_shared(other.directory() / "session");
  ASSERT_NE(memory, MAP_FAILED);
  IdleChild child([] {});
  munmap(memory, 4096);
  const auto outcome = open().finish();
  ASSERT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_TRUE(outcome->session_removed);
}

// A limit on the file size stands in for a full disk: the write fails in the middle.
TEST_F(PackerTest, AFullDiskKeepsTheRecordingAndReportsIt) {
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 1, 42, 90'000'000, 10)},
                        {ring(0, 0, 42, 1000, 2046)});
  sample_.write_session();
  const auto before = all_begins();
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  Packer packer = open();
  const rlimit small{1000, old_limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto outcome = packer.finish();
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(outcome.ok());
  EXPECT_THAT(outcome.error().message(), HasSubstr("is unchanged, and can be read"));
  EXPECT_EQ(all_begins(), before);
  EXPECT_LT(fs::file_size(output_), 100u);
  // When there is space again, the same packer continues.
  const auto again = packer.finish();
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_TRUE(again->session_removed);
  EXPECT_EQ(all_begins(), before);
}

TEST_F(PackerTest, ASecondPackerOfTheSameFileIsRefused) {
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 0, 42, 1000, 10)}, {});
  sample_.write_session();
  const Packer first = open();
  const auto second = Packer::open(sample_.directory(), output_);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), HasSubstr("another millrace is packing"));
}

TEST_F(PackerTest, LossesAreKept) {
  wire::ProcessPage page = RecordedSample::process(42);
  page.lost.events = 9;
  page.lost.error = 28;
  sample_.page.lost.events = 4;
  sample_.write_process("42-f4240", page, {ring(0, 0, 42, 1000, 10)}, {});
  sample_.write_session();
  ASSERT_TRUE(open().finish().ok());
  const auto trace = Trace::open(output_.string());
  ASSERT_THAT(trace->losses(), SizeIs(2));
  EXPECT_EQ(trace->losses()[0].events, 9u);
  EXPECT_EQ(trace->losses()[1].events, 4u);
  EXPECT_EQ(trace->losses()[1].process, kNoProcess);
}

TEST_F(PackerTest, LossesAfterThePackerWasOpenedAreKept) {
  sample_.write_session();
  Packer packer = open();
  sample_.page.lost.events = 4;
  sample_.write_session();
  ASSERT_TRUE(packer.finish().ok());
  const auto trace = Trace::open(output_.string());
  ASSERT_THAT(trace->losses(), SizeIs(1));
  EXPECT_EQ(trace->losses()[0].events, 4u);
}

TEST_F(PackerTest, ThePackedFileOfAnotherRecordingIsNotTouched) {
  sample_.write_process("42-f4240", RecordedSample::process(42), {ring(0, 0, 42, 1000, 10)}, {});
  sample_.write_session();
  EXPECT_EQ(Packer::default_output(sample_.directory()), output_);
  ASSERT_TRUE(open().finish().ok());
  sample_.page.first.monotonic_ns += 77;
  fs::create_directories(sample_.directory());
  sample_.write_session();
  EXPECT_EQ(Packer::default_output(sample_.directory()).filename(), "node7-11111111-2.mrt");
  EXPECT_THAT(Packer::open(sample_.directory(), output_).error().message(),
              HasSubstr("contains another trace"));
}

}  // namespace
}  // namespace millrace::trace
