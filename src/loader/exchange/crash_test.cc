// Tests that a job killed at any moment leaves every sample with one owner, or can be repaired.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "base/io/temporary_directory.h"
#include "base/numbers/random.h"
#include "loader/exchange/held_shard.h"
#include "loader/exchange/settle.h"
#include "loader/testing/shard_job.h"

namespace millrace::loader::exchange {
namespace {

using testing::Each;

constexpr uint32_t kRanks = 3;

class ExchangeCrash : public testing::Test {
 protected:
  // Exchanges forever, in its own process.
  pid_t start_job() const {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    run_ranks(kRanks, [&](comm::Comm& comm) {
      return run_exchanges({.directory = directory_.path(), .order = order_, .epochs = 1'000'000},
                           comm);
    });
    _exit(1);  // only a failure ends it
  }

  // Opens what is left, like a restarted job; returns the epochs of all ranks, or the errors.
  std::vector<std::string> restart(std::set<uint64_t>& epochs, std::set<data::SampleId>& owned) {
    std::mutex mutex;
    return run_ranks(kRanks, [&](comm::Comm& comm) -> Status {
      ASSIGN_OR_RETURN(const auto storage,
                       open_storage(directory_.path(), order_, comm::index_of(comm.rank())));
      RETURN_IF_ERROR(settle(*storage, comm));
      if (!storage->epoch()) return {};  // killed before anything was staged
      RETURN_IF_ERROR(check_storage(*storage));
      const std::lock_guard lock(mutex);
      epochs.insert(data::number_of(*storage->epoch()));
      for (const data::SampleId sample : storage->samples()) owned.insert(sample);
      return {};
    });
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  order::Options order_ = partial_order(90, kRanks, 0.4);
};

TEST_F(ExchangeCrash, LeavesEverySampleIntactWithOneOwner) {
  Random random(static_cast<uint64_t>(getpid()));
  uint64_t last_epoch = 0;
  bool is_staged = false;
  // Under a sanitizer or on a busy machine a job does not get far, so later jobs get more time.
  uint64_t delay_us_max = 20'000;
  for (int kill_count = 0; kill_count < 25 || (last_epoch == 0 && kill_count < 40); ++kill_count) {
    const pid_t pid = start_job();
    ASSERT_GT(pid, 0);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(delay_us_max)));
    kill(pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the job failed by itself";
    std::set<uint64_t> epochs;
    std::set<data::SampleId> owned;
    ASSERT_THAT(restart(epochs, owned), Each(""));
    const uint64_t epoch = epochs.empty() ? 0 : *epochs.begin();
    if (epoch == last_epoch) delay_us_max = std::min<uint64_t>(delay_us_max * 3 / 2, 2'000'000);
    ASSERT_FALSE(epochs.empty() && is_staged) << "what was staged is lost";
    if (epochs.empty()) continue;
    is_staged = true;
    ASSERT_EQ(epochs.size(), 1u);
    ASSERT_EQ(owned.size(), 90u);
    ASSERT_GE(epoch, last_epoch);
    last_epoch = epoch;
  }
  EXPECT_GT(last_epoch, 0u) << "no job came so far as to exchange anything";
}

Result<std::unique_ptr<HeldShard>> open_shard(const std::filesystem::path& directory,
                                              const order::Options& order, comm::Comm& comm) {
  return HeldShard::open({.directory = directory,
                          .order = order,
                          .dataset = std::make_shared<const NumberedSource>(order.sample_count),
                          .comm = {&comm, [](comm::Comm*) {}},
                          .staging = {.thread_count = 1}});
}

// Killed during exchanges, and while staging samples of another epoch that the disks lack.
TEST_F(ExchangeCrash, OfAJobThatJumpsBetweenEpochsIsRepairedFromTheDataset) {
  const auto leap = [&](comm::Comm& comm) -> Status {
    ASSIGN_OR_RETURN(const auto shard, open_shard(directory_.path(), order_, comm));
    for (uint64_t i = 0;; ++i) {
      RETURN_IF_ERROR(shard->bring_to(data::Epoch{i * 7 % 11}));
      RETURN_IF_ERROR(shard->start_exchange());
      RETURN_IF_ERROR(shard->finish_exchange());
    }
  };
  Random random(static_cast<uint64_t>(getpid()));
  uint64_t agreed_count = 0;
  // As above: later jobs get more time on a busy machine.
  uint64_t delay_us_max = 200'000;
  for (int kill_count = 0; kill_count < 15 || (agreed_count == 0 && kill_count < 60);
       ++kill_count) {
    if (kill_count >= 15) delay_us_max = std::min<uint64_t>(delay_us_max * 3 / 2, 2'000'000);
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      run_ranks(kRanks, leap);
      _exit(1);  // only a failure ends it
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(delay_us_max)));
    kill(pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the job failed by itself";
    std::mutex mutex;
    std::set<data::SampleId> owned;
    ASSERT_THAT(run_ranks(kRanks,
                          [&](comm::Comm& comm) -> Status {
                            ASSIGN_OR_RETURN(const auto shard,
                                             open_shard(directory_.path(), order_, comm));
                            const bool agreed = shard->epoch().has_value();
                            if (!agreed) RETURN_IF_ERROR(shard->bring_to(data::Epoch{4}));
                            RETURN_IF_ERROR(check_storage(shard->storage()));
                            const std::lock_guard lock(mutex);
                            agreed_count += agreed ? 1 : 0;
                            for (const auto sample : shard->storage().samples()) {
                              owned.insert(sample);
                            }
                            return {};
                          }),
                Each(""));
    ASSERT_EQ(owned.size(), 90u);
  }
  // Only a rank that was killed before its first epoch or during staging has no epoch.
  EXPECT_GT(agreed_count, 0u);
}

}  // namespace
}  // namespace millrace::loader::exchange
