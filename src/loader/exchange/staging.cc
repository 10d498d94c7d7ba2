#include "loader/exchange/staging.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/system/clock.h"
#include "base/system/progress.h"
#include "data/buffer.h"
#include "loader/exchange/settle.h"
#include "loader/order/partial_moves.h"

namespace millrace::loader::exchange {
namespace {

constexpr auto kPollPeriod = std::chrono::milliseconds(100);  // how often to poll for interruption

// The samples of the rank in the epoch, by slot.
std::vector<data::SampleId> samples_of(const StorageOptions& options, data::Epoch epoch) {
  const order::PartialMoves moves(options.order);
  std::vector<order::Slot> slots(moves.shards().size_of(options.rank));
  for (uint64_t i = 0; i < slots.size(); ++i) slots[i] = {.shard = options.rank, .index = i};
  moves.go_home(epoch, slots);
  std::vector<data::SampleId> samples;
  samples.reserve(slots.size());
  for (const order::Slot& slot : slots) samples.push_back(moves.shards().at_home(slot));
  return samples;
}

// The threads of one staging and their shared state.
class Copying {
 public:
  Copying(ShardStorage& storage, const data::SampleSource& dataset, const StagingOptions& options,
          StagingStats& stats, uint64_t total)
      : storage_(&storage), dataset_(&dataset), options_(&options), stats_(&stats) {
    if (options.shows_progress) {
      progress_.emplace(Progress::Options{.label = "staging samples", .total = total});
    }
  }

  // Calls copy(i) for each i below `count`, on other threads. The calling thread polls for
  // interruption and copies nothing, because a slow read would delay the poll.
  Status copy_all(size_t count, const std::function<Status(size_t)>& copy) {
    if (count == 0) return {};
    ThreadPool pool(std::max(options_->thread_count, 1U));
    std::promise<Status> copied;
    std::future<Status> future = copied.get_future();
    pool.submit([&] { copied.set_value(pool.parallel_for(count, copy)); });
    do {
      poll_interruption();
    } while (future.wait_for(kPollPeriod) != std::future_status::ready);
    Status outcome = future.get();
    // Even if everything was copied by then: the caller that interrupted relies on it.
    return is_interrupted_ ? interrupted() : std::move(outcome);
  }

  Status copy(uint64_t slot, data::SampleId sample) {
    if (is_interrupted_) return interrupted();
    thread_local data::Buffer room;
    const auto bytes = dataset_->read(sample, room);
    const MutexLock lock(mutex_);
    if (!bytes.ok()) {
      if (!options_->skips_unreadable) return bytes.error();
      if (stats_->unreadable++ == 0) stats_->first_unreadable = bytes.error().message();
    }
    const ByteView stored = bytes.ok() ? *bytes : ByteView();
    RETURN_IF_ERROR(storage_->stage(slot, sample, stored));
    ++stats_->samples;
    stats_->bytes += stored.size();
    if (progress_) progress_->add(1);
    return {};
  }

 private:
  void poll_interruption() {
    if (is_interrupted_ || !options_->is_interrupted) return;
    is_interrupted_ = options_->is_interrupted();
  }

  static Status interrupted() {
    return fail(Errc::kCancelled, "staging was interrupted; the next run continues from there");
  }

  ShardStorage* storage_;
  const data::SampleSource* dataset_;
  const StagingOptions* options_;
  StagingStats* stats_;
  std::atomic<bool> is_interrupted_ = false;
  std::optional<Progress> progress_;
  Mutex mutex_;  // guards the storage and the statistics
};

}  // namespace

Status stage_epoch(ShardStorage& storage, const data::SampleSource& dataset, data::Epoch epoch,
                   const StagingOptions& options, StagingStats& stats) {
  const auto begin = monotonic_now();
  if (dataset.sample_count() != storage.options().order.sample_count) {
    return fail(Errc::kInvalidArgument, "the source has {} samples, but the order has {}",
                dataset.sample_count(), storage.options().order.sample_count);
  }
  const auto wanted = samples_of(storage.options(), epoch);
  ASSIGN_OR_RETURN(std::vector<uint64_t> missing, storage.begin_staging(wanted));
  stats.kept += wanted.size() - missing.size();
  // In dataset order, because files often hold many samples.
  std::ranges::sort(missing, {}, [&](uint64_t slot) { return wanted[slot]; });
  Status copied;
  {
    Copying copying(storage, dataset, options, stats, missing.size());
    copied = copying.copy_all(
        missing.size(), [&](size_t i) { return copying.copy(missing[i], wanted[missing[i]]); });
  }
  stats.time += monotonic_now() - begin;
  // Lets the next staging continue from here if this one has failed or another rank fails.
  Status saved = storage.save_staging();
  RETURN_IF_ERROR(std::move(copied));
  RETURN_IF_ERROR(std::move(saved));
  return storage.prepare(epoch);
}

Status stage_together(ShardStorage& storage, const data::SampleSource& dataset, data::Epoch epoch,
                      comm::Comm& comm, const StagingOptions& options, StagingStats& stats) {
  return commit_together(storage, comm, stage_epoch(storage, dataset, epoch, options, stats));
}

Status stage_shard(ShardStorage& storage, const data::SampleSource& dataset, comm::Comm& comm) {
  StagingStats stats;
  return stage_together(storage, dataset, data::Epoch{0}, comm, {}, stats);
}

}  // namespace millrace::loader::exchange
