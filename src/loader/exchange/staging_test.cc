#include "loader/exchange/staging.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "comm/single.h"
#include "loader/testing/shard_job.h"

namespace millrace::loader::exchange {
namespace {

using data::Epoch;
using data::SampleId;
using testing::HasSubstr;

constexpr uint64_t kSampleCount = 200;

// Records which samples are read, and fails for some.
class WatchedSource final : public NumberedSource {
 public:
  WatchedSource() : NumberedSource(kSampleCount) {}

  Result<ByteView> read(SampleId sample, data::Buffer& room) const override {
    {
      const std::lock_guard lock(mutex);
      read_samples.insert(data::index_of(sample));
      another_read.notify_all();
    }
    if (is_stuck) is_stuck->wait(true);
    if (data::index_of(sample) == unreadable) {
      wait_for_others();
      return fail(Errc::kIo, "{}: cannot be read", name(sample));
    }
    return NumberedSource::read(sample, room);
  }

  // The unreadable sample fails only after this many other reads have begun. After an error, a
  // thread would not begin a sample that it has already claimed.
  uint64_t read_before = 0;

  mutable std::mutex mutex;
  mutable std::condition_variable another_read;
  mutable std::multiset<uint64_t> read_samples;
  uint64_t unreadable = ~uint64_t{0};
  std::atomic<bool>* is_stuck = nullptr;  // reads block while it is true

 private:
  void wait_for_others() const {
    std::unique_lock lock(mutex);
    another_read.wait(lock, [&] { return read_samples.size() > read_before; });
  }
};

class Staging : public testing::Test {
 protected:
  std::unique_ptr<ShardStorage> open() {
    return *ShardStorage::open({.directory = directory_.path() / "storage",
                                .order = order_,
                                .rank = 1,
                                .dataset = 7,
                                .staging_step_bytes = 10'000});
  }

  Status stage(ShardStorage& storage, uint64_t epoch, const StagingOptions& options = {}) {
    return stage_together(storage, source_, Epoch{epoch}, *comm_, options, stats_);
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  order::Options order_ = partial_order(kSampleCount, 2, 0.1);
  std::unique_ptr<comm::Comm> comm_ = comm::single();
  WatchedSource source_;
  StagingStats stats_;
};

TEST_F(Staging, StoresTheSamplesOfAnyEpoch) {
  for (const uint64_t epoch : {0, 3, 41}) {
    const auto storage = open();
    ASSERT_TRUE(stage(*storage, epoch).ok());
    EXPECT_EQ(storage->epoch(), Epoch{epoch});
    const Status checked = check_storage(*storage);
    EXPECT_TRUE(checked.ok()) << checked.error().message();
  }
}

TEST_F(Staging, ReadsOnlyWhatIsMissingInAnotherEpoch) {
  const auto storage = open();
  ASSERT_TRUE(stage(*storage, 4).ok());
  EXPECT_EQ(stats_.samples, 100u);
  for (const uint64_t epoch : {5, 4}) {  // forward, and back
    source_.read_samples.clear();
    stats_ = {};
    const auto before = storage->samples();
    ASSERT_TRUE(stage(*storage, epoch).ok());
    EXPECT_TRUE(check_storage(*storage).ok());
    EXPECT_LE(stats_.samples, 10u);
    EXPECT_GT(stats_.samples, 0u);
    EXPECT_EQ(stats_.kept + stats_.samples, 100u);
    EXPECT_EQ(source_.read_samples.size(), stats_.samples);
    for (const SampleId had : before) EXPECT_FALSE(source_.read_samples.contains(index_of(had)));
  }
  // New samples reuse the room of those that left: never more than the shard is stored.
  EXPECT_EQ(storage->stored_count_max(), 100u);
}

TEST_F(Staging, ContinuesAnInterruptedOne) {
  source_.unreadable = 180;
  source_.read_before = 80;
  {
    const auto storage = open();
    const Status failed = stage(*storage, 0);
    EXPECT_EQ(failed.error().message(), "sample 180: cannot be read");
    EXPECT_EQ(storage->epoch(), std::nullopt);
  }
  const auto copied = std::exchange(source_.read_samples, {});
  EXPECT_GE(copied.size(), 80u);
  source_.unreadable = ~uint64_t{0};
  stats_ = {};
  const auto storage = open();
  ASSERT_TRUE(stage(*storage, 0).ok());
  EXPECT_TRUE(check_storage(*storage).ok());
  EXPECT_EQ(stats_.kept + stats_.samples, 100u);
  EXPECT_GE(stats_.kept, 80u);
  EXPECT_EQ(source_.read_samples.size(), stats_.samples);
}

TEST_F(Staging, ContinuesAKilledOneEvenForAnotherEpoch) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    source_.unreadable = 180;
    const auto storage = open();
    // Like a killed process: nothing is saved at the end.
    const auto wanted = *order::make_order(order_);
    std::vector<SampleId> samples(100);
    wanted->fill(Epoch{0}, 1, 2, samples);
    std::ranges::sort(samples);
    if (!storage->begin_staging(samples).ok()) _exit(1);
    for (uint64_t slot = 0; slot < 80; ++slot) {
      const std::string bytes = bytes_of_sample(data::index_of(samples[slot]));
      if (!storage->stage(slot, samples[slot], bytes_of(bytes)).ok()) _exit(1);
    }
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto storage = open();
  EXPECT_EQ(storage->epoch(), std::nullopt);
  ASSERT_TRUE(stage(*storage, 1).ok());
  EXPECT_TRUE(check_storage(*storage).ok());
  EXPECT_GT(stats_.kept, 40u) << "all but the last step";
  EXPECT_LT(stats_.kept, 80u);
}

TEST_F(Staging, ADamagedJournalCostsOnlyExtraCopies) {
  source_.unreadable = 150;
  {
    EXPECT_FALSE(stage(*open(), 0).ok());
  }
  source_.unreadable = ~uint64_t{0};
  const auto storage_path = directory_.path() / "storage";
  const auto left_path = directory_.path() / "left";
  std::filesystem::copy(storage_path, left_path);
  const std::string good = *read_file(left_path / "staged");
  // After the magic number: without it, the journal may be a file of somebody else.
  for (size_t at = 8; at < good.size(); at += 1 + at / 4) {
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    if (at % 3 == 0) changed.resize(at);
    std::filesystem::remove_all(storage_path);
    std::filesystem::copy(left_path, storage_path);
    {
      std::ofstream(storage_path / "staged", std::ios::binary) << changed;
    }
    const auto storage = open();
    ASSERT_TRUE(stage(*storage, 0).ok()) << at;
    ASSERT_TRUE(check_storage(*storage).ok()) << at;
  }
}

TEST_F(Staging, StoresAnUnreadableSampleWithoutBytesOnRequest) {
  source_.unreadable = 150;
  const auto storage = open();
  ASSERT_TRUE(stage(*storage, 0, {.skips_unreadable = true}).ok());
  EXPECT_EQ(storage->size_bytes(SampleId{150}), 0u);
  EXPECT_EQ(stats_.unreadable, 1u);
  EXPECT_EQ(stats_.first_unreadable, "sample 150: cannot be read");
}

// No read returns before the interruption, which comes after the first poll.
TEST_F(Staging, CanBeInterruptedDuringReadsAndContinued) {
  {
    std::atomic<bool> is_stuck = true;
    source_.is_stuck = &is_stuck;
    int asked = 0;
    const auto is_interrupted = [&] {
      if (++asked < 3) return false;
      is_stuck = false;
      is_stuck.notify_all();
      return true;
    };
    const auto storage = open();
    const Status ended = stage(*storage, 0, {.is_interrupted = is_interrupted});
    ASSERT_FALSE(ended.ok());
    EXPECT_EQ(ended.error().code(), Errc::kCancelled);
    EXPECT_THAT(ended.error().message(), HasSubstr("the next run continues from there"));
    source_.is_stuck = nullptr;
  }
  const auto storage = open();
  ASSERT_TRUE(stage(*storage, 0).ok());
  EXPECT_TRUE(check_storage(*storage).ok());
}

TEST(StagingJournal, ReadsAndWritesTheGoldenFile) {
  const StorageOptions options{.order = partial_order(6, 2, 0.5), .rank = 1, .dataset = 0x1234};
  const auto entries = StagingJournal::read("tests/golden/staged.bin", options);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].sample, 4u);
  EXPECT_EQ(entries[0].size_bytes, 100u);
  EXPECT_EQ(entries[0].crc32c, 0x11111111u);
  EXPECT_EQ(entries[1].offset_bytes, 128u);
  const auto directory = *TemporaryDirectory::create();
  const auto path = directory.path() / "staged";
  auto journal = StagingJournal::create(path, options, std::span(entries).first(1));
  ASSERT_TRUE(journal.ok()) << journal.error().message();
  ASSERT_TRUE(journal->append(std::span(entries).subspan(1)).ok());
  EXPECT_EQ(*read_file(path), *read_file("tests/golden/staged.bin"));
}

TEST(StagingJournal, OfAnotherDatasetIsIgnored) {
  const StorageOptions options{.order = partial_order(6, 2, 0.5), .rank = 1, .dataset = 0x1235};
  EXPECT_TRUE(StagingJournal::read("tests/golden/staged.bin", options).empty());
}

}  // namespace
}  // namespace millrace::loader::exchange
