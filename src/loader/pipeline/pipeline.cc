#include "loader/pipeline/pipeline.h"

#include <millrace/trace.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread.h"
#include "base/system/clock.h"
#include "base/text/units.h"
#include "loader/pipeline/work_queue.h"

namespace millrace::loader::pipeline {
namespace {

constexpr std::chrono::nanoseconds kLookEvery = std::chrono::milliseconds(100);
constexpr std::chrono::nanoseconds kTuneEvery = std::chrono::milliseconds(50);
constexpr size_t kNamedStuckSamples = 4;

constinit Name wait_region{MILLRACE_BATCH_WAIT};

bool is_tuned(const TunerOptions& options) {
  return options.fixed_thread_count == 0 || options.fixed_prefetch_batches == 0;
}

}  // namespace

Stats& Stats::operator+=(const Stats& later) {
  lanes += later.lanes;
  waited += later.waited;
  blocked += later.blocked;
  buffers_allocated += later.buffers_allocated;
  setting = later.setting;
  reads = later.reads;
  return *this;
}

struct Pipeline::Core {
  explicit Core(Options made_of, const TunerSetting& setting)
      : options(std::move(made_of)),
        queue({.source = options.lane.source,
               .buffer_count_max = options.tuner.prefetch_batches_max,
               .memory_bytes = options.memory_bytes,
               .hooks = options.hooks,
               .on_ready = options.on_ready},
              options.layout, setting) {}

  // A copy, so that no foreign code (the name of a sample) is called under the lock.
  std::vector<LaneActivity> activities() const {
    std::vector<LaneActivity> activities;
    const MutexLock lock(mutex);
    for (const auto& lane : lanes) lane->append_activities(activities);
    return activities;
  }

  const Options options;
  WorkQueue queue;
  const pid_t pid = getpid();
  mutable Mutex mutex;
  std::condition_variable ended;
  std::vector<std::unique_ptr<Lane>> lanes GUARDED_BY(mutex);  // each lane belongs to its thread
  std::vector<bool> has_ended GUARDED_BY(mutex);               // by thread
};

Pipeline::Pipeline(Options options) : tuner_(options.tuner) {
  options.lane.measures_cpu = options.tuner.fixed_thread_count == 0;
  options.lane.choice =
      std::make_shared<ReadChoice>(options.lane.source->ways(), options.lane.io_depth);
  core_ = std::make_shared<Core>(std::move(options), tuner_.setting());
}

Pipeline::~Pipeline() {
  if (!is_of_this_process()) {
    // The parent's threads can be neither joined nor detached here, so forget them.
    for (std::thread& thread : threads_) std::construct_at(&thread);
    return;
  }
  core_->queue.stop();
  std::vector<bool> has_ended;
  {
    MutexLock lock(core_->mutex);
    core_->ended.wait_for(lock, core_->options.ending_patience, [&]() REQUIRES(core_->mutex) {
      return std::ranges::find(core_->has_ended, false) == core_->has_ended.end();
    });
    has_ended = core_->has_ended;
  }
  for (size_t i = 0; i < threads_.size(); ++i) {
    if (has_ended[i]) {
      threads_[i].join();
    } else {
      threads_[i].detach();
    }
  }
}

bool Pipeline::is_of_this_process() const { return getpid() == core_->pid; }

void Pipeline::run(Core& core, uint32_t thread, Lane& lane) {
  lane.run(core.queue, thread);
  const MutexLock lock(core.mutex);
  core.has_ended[thread] = true;
  core.ended.notify_all();
}

Status Pipeline::start_threads(uint32_t thread_count) {
  while (threads_.size() < thread_count) {
    const auto thread = static_cast<uint32_t>(threads_.size());
    auto made = std::make_unique<Lane>(core_->options.lane);
    Lane* const lane = made.get();
    {
      const MutexLock lock(core_->mutex);
      core_->lanes.push_back(std::move(made));
      core_->has_ended.push_back(false);
    }
    auto started = start_thread(fmt::format("mr-load-{}", thread),
                                [core = core_, thread, lane] { run(*core, thread, *lane); });
    if (!started.ok()) {
      const MutexLock lock(core_->mutex);
      core_->lanes.pop_back();
      core_->has_ended.pop_back();
      if (!threads_.empty()) return {};  // fewer threads than wanted also work
      return std::move(started).error();
    }
    threads_.push_back(*std::move(started));
  }
  return {};
}

Status Pipeline::restart(BatchSchedule schedule) {
  // Set the schedule first, so that a new thread finds work.
  core_->queue.restart(std::move(schedule));
  tuned_at_ = {};
  return start_threads(tuner_.setting().thread_count);
}

bool Pipeline::skip_to(data::Epoch epoch) { return core_->queue.skip_to(epoch); }

void Pipeline::cancel() { core_->queue.cancel(); }

Result<std::shared_ptr<BatchWork>> Pipeline::next() {
  // Marked even if there is no wait, so that a trace shows a wait of zero instead of nothing.
  std::optional<Region> region;
  if (core_->options.marks_waits) region.emplace(wait_region);
  auto taken = core_->queue.take_front(std::chrono::nanoseconds(0));
  std::shared_ptr<BatchWork> work = std::move(taken.work);
  if (taken.front == WorkQueue::Front::kCancelled) return fail(Errc::kCancelled, "cancelled");
  if (!work) {
    ASSIGN_OR_RETURN(work, wait());
  }
  if (region) {
    const ScheduledBatch& batch = work->scheduled();
    region->epoch(static_cast<uint32_t>(data::number_of(batch.epoch))).step(batch.index);
    region->end();
  }
  if (is_tuned(core_->options.tuner)) tune(work->row_count());
  return work;
}

bool Pipeline::is_ready() const { return core_->queue.is_front_known(); }

void Pipeline::count_wait(std::chrono::nanoseconds waited) {
  waited_ns_.fetch_add(waited.count(), std::memory_order_relaxed);
}

Result<std::shared_ptr<BatchWork>> Pipeline::wait() {
  const auto began = monotonic_now();
  const auto& options = core_->options;
  const auto patience = std::clamp(options.read_deadline, std::chrono::nanoseconds(1), kLookEvery);
  Status status;
  WorkQueue::Taken taken{.front = WorkQueue::Front::kNotReady};
  while (status.ok() && taken.front == WorkQueue::Front::kNotReady) {
    taken = core_->queue.take_front(patience);
    if (taken.front != WorkQueue::Front::kNotReady) break;
    if (options.is_interrupted && options.is_interrupted()) {
      status = fail(Errc::kCancelled, "interrupted");
    } else {
      status = check_stuck(began);
    }
  }
  count_wait(monotonic_now() - began);
  if (!status.ok()) return std::move(status).error();
  if (taken.front == WorkQueue::Front::kCancelled) return fail(Errc::kCancelled, "cancelled");
  if (!taken.work) return fail(Errc::kInvalidArgument, "no batch is left");
  return std::move(taken.work);
}

// Checked by the waiting consumer, not by a watchdog thread: a stuck read matters only to a waiter.
Status Pipeline::check_stuck(std::chrono::nanoseconds waits_since) const {
  const auto& options = core_->options;
  const auto now = monotonic_now();
  size_t stuck_count = 0;
  std::string names;
  for (const LaneActivity& activity : core_->activities()) {
    // The deadline counts from this wait, so that a consumer may wait again after an error.
    if (now - std::max(activity.since, waits_since) < options.read_deadline) continue;
    if (++stuck_count > kNamedStuckSamples) continue;
    names += fmt::format(
        "{}{} ({} for {})", names.empty() ? "" : ", ", options.lane.source->name(activity.sample),
        activity.is_decoding ? "decoded" : "read", format_duration(now - activity.since));
  }
  if (stuck_count == 0) return {};
  if (stuck_count > kNamedStuckSamples) {
    names += fmt::format(" and {} more", stuck_count - kNamedStuckSamples);
  }
  return fail(Errc::kTimeout,
              "the next batch waits for {}, longer than the deadline of {}; check that the file "
              "system responds, or raise read_deadline",
              names, format_duration(options.read_deadline));
}

void Pipeline::tune(uint64_t samples) {
  const auto now = monotonic_now();
  tuned_samples_ += samples;
  if (tuned_at_.count() != 0 && now - tuned_at_ < kTuneEvery) return;
  const Stats sums = stats();
  // Skip the first batch after a start: the consumer waits for it with any number of threads.
  if (tuned_at_.count() != 0) {
    const TunerSetting before = tuner_.setting();
    const TunerSetting& setting = tuner_.observe({.wall = now - tuned_at_,
                                                  .waited = sums.waited - tuned_stats_.waited,
                                                  .blocked = sums.blocked - tuned_stats_.blocked,
                                                  .cpu = sums.lanes.cpu - tuned_stats_.lanes.cpu,
                                                  .samples = tuned_samples_});
    if (setting != before) {
      core_->queue.set(setting);
      // If the system is out of threads, continue with the existing ones.
      static_cast<void>(start_threads(setting.thread_count).ok());
    }
  }
  tuned_at_ = now;
  tuned_stats_ = sums;
  tuned_samples_ = 0;
}

Stats Pipeline::stats() const {
  Stats stats;
  stats.waited = std::chrono::nanoseconds(waited_ns_.load(std::memory_order_relaxed));
  stats.blocked = core_->queue.blocked();
  stats.setting = core_->queue.setting();
  stats.buffers_allocated = core_->queue.buffers_allocated();
  const MutexLock lock(core_->mutex);
  for (const auto& lane : core_->lanes) stats.lanes += lane->counts();
  stats.reads = core_->options.lane.choice->stats();
  return stats;
}

}  // namespace millrace::loader::pipeline
