// A job that is killed at any moment leaves every sample with one owner.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "base/random.h"
#include "base/temporary_directory.h"
#include "loader/exchange/settle.h"
#include "loader/exchange/test_data.h"

namespace millrace::loader {
namespace {

using testing::Each;

constexpr uint32_t kRanks = 3;

class ExchangeCrash : public testing::Test {
 protected:
  // Exchanges for ever, in a process of its own.
  pid_t start_job() const {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    run_ranks(kRanks, [&](comm::Comm& comm) {
      return run_exchanges({.directory = directory_.path(), .order = order_, .epochs = 1'000'000},
                           comm);
    });
    _exit(1);  // only a failure ends it
  }

  // Opens what is left, as a restarted job does; every rank's epoch, or the errors.
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
  OrderOptions order_ = partial_order(90, kRanks, 0.4);
};

TEST_F(ExchangeCrash, LeavesEverySampleOwnedOnceWithItsBytes) {
  Random random(static_cast<uint64_t>(getpid()));
  uint64_t last_epoch = 0;
  bool is_staged = false;
  // Under a sanitizer, or on a busy machine, a job comes not far: later ones get more time.
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

}  // namespace
}  // namespace millrace::loader
