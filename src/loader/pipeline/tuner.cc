#include "loader/pipeline/tuner.h"

#include <algorithm>

namespace millrace::loader::pipeline {
namespace {

constexpr double kWaitsShare = 0.02;  // grow if the consumer waits for more of the time than this
constexpr double kCalmShare = 0.005;  // the consumer is served if it waits for less than this
constexpr double kIdleShare = 0.5;    // too many threads if they idle for more of their time
constexpr double kBurstShare = 0.1;   // batches come in bursts if threads idle for more
constexpr double kUsedShare = 0.75;   // above this CPU use, more threads would only take turns
constexpr double kWorthwhile = 1.03;  // the speedup that more threads must bring
// Other ranks on the host may use the same CPUs. A rank that needs more threads grows within a few
// tenths of a second.
constexpr uint32_t kFirstThreadCountMax = 16;
constexpr uint32_t kThreadsPerCpu = 4;       // limit if threads wait for a device, not for a CPU
constexpr uint32_t kPrefetchBatchesMin = 3;  // one taken, one being filled, one begun
constexpr uint32_t kPrefetchBatchesMax = 64;
constexpr uint32_t kCalmIntervals = 8;
constexpr uint32_t kPatience = 100;

double share(std::chrono::nanoseconds part, std::chrono::nanoseconds whole) {
  return whole.count() <= 0
             ? 0
             : static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

// REQUIRES: the interval is not empty.
double samples_per_second(const TunerInterval& interval) {
  return static_cast<double>(interval.samples) /
         std::chrono::duration<double>(interval.wall).count();
}

// Enough batches for every thread to have a row while the consumer's next batch is complete.
uint32_t first_prefetch_batches(uint32_t thread_count, uint64_t batch_size) {
  const uint64_t rows = uint64_t{2} * thread_count;
  const uint64_t batches = (rows + batch_size - 1) / batch_size + 1;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(batches, kPrefetchBatchesMin, kPrefetchBatchesMax));
}

}  // namespace

Tuner::Tuner(const TunerOptions& options) : options_(options) {
  const uint32_t cpus = std::max(options.cpu_count, 1u);
  thread_count_max_ = kThreadsPerCpu * cpus;
  setting_.thread_count = options.fixed_thread_count > 0 ? options.fixed_thread_count
                                                         : std::min(cpus, kFirstThreadCountMax);
  const uint32_t wanted = options.fixed_prefetch_batches > 0
                              ? options.fixed_prefetch_batches
                              : first_prefetch_batches(setting_.thread_count, options.batch_size);
  setting_.prefetch_batches = std::clamp(wanted, 1u, std::max(options.prefetch_batches_max, 1u));
}

const TunerSetting& Tuner::observe(const TunerInterval& interval) {
  if (interval.wall.count() <= 0) return setting_;
  if (patience_ > 0 && --patience_ == 0) {
    thread_count_min_ = 1;
    thread_count_max_ = kThreadsPerCpu * std::max(options_.cpu_count, 1u);
  }
  judge_last_step(samples_per_second(interval));
  const double waits = share(interval.waited, interval.wall);
  const bool is_idle = share(interval.blocked, interval.wall * setting_.thread_count) > kIdleShare;
  calm_intervals_ = waits < kCalmShare && is_idle ? calm_intervals_ + 1 : 0;
  if (waits > kWaitsShare) {
    grow(interval);
  } else if (calm_intervals_ >= kCalmIntervals) {
    shrink();
  }
  return setting_;
}

void Tuner::grow(const TunerInterval& interval) {
  if (has_shrunk_) {
    // The last step removed a thread that was needed.
    thread_count_min_ = setting_.thread_count + 1;
    patience_ = kPatience;
    has_shrunk_ = false;
  }
  // If threads waited for room although the consumer waited, batches come in bursts, and a longer
  // queue smooths them. If threads were busy, only more threads can help.
  const bool waits_for_room =
      share(interval.blocked, interval.wall * setting_.thread_count) > kBurstShare;
  if (waits_for_room && options_.fixed_prefetch_batches == 0) {
    const uint32_t most = std::clamp(options_.prefetch_batches_max, 1u, kPrefetchBatchesMax);
    setting_.prefetch_batches =
        std::clamp(setting_.prefetch_batches + (setting_.prefetch_batches + 1) / 2, 1u,
                   std::max(most, setting_.prefetch_batches));
  }
  if (!waits_for_room) grow_threads(interval);
}

void Tuner::grow_threads(const TunerInterval& interval) {
  if (options_.fixed_thread_count > 0 || setting_.thread_count >= thread_count_max_) return;
  const uint32_t step = std::max(1u, setting_.thread_count / 4);
  uint32_t wanted = std::min(setting_.thread_count + step, thread_count_max_);
  if (wanted > options_.cpu_count) {
    // If decoding keeps the CPUs busy, more threads than CPUs would only take turns. If threads
    // wait for a device, try whether more concurrent requests are faster.
    const bool has_free_cpus = share(interval.cpu, interval.wall * options_.cpu_count) < kUsedShare;
    if (!has_free_cpus) wanted = std::max(options_.cpu_count, setting_.thread_count);
  }
  if (wanted > std::max(options_.cpu_count, setting_.thread_count)) {
    grown_from_ = setting_.thread_count;
    rate_before_ = samples_per_second(interval);
  }
  setting_.thread_count = wanted;
  if (options_.fixed_prefetch_batches == 0) {
    const uint32_t least = first_prefetch_batches(wanted, options_.batch_size);
    setting_.prefetch_batches = std::max(
        setting_.prefetch_batches, std::min(least, std::max(options_.prefetch_batches_max, 1u)));
  }
}

void Tuner::judge_last_step(double rate) {
  if (grown_from_ == 0) return;
  if (rate < rate_before_ * kWorthwhile) {
    setting_.thread_count = grown_from_;
    thread_count_max_ = grown_from_;
    patience_ = kPatience;
  }
  grown_from_ = 0;
}

void Tuner::shrink() {
  calm_intervals_ = 0;
  has_shrunk_ = false;
  if (options_.fixed_thread_count > 0 || setting_.thread_count <= thread_count_min_) return;
  --setting_.thread_count;
  has_shrunk_ = true;
}

}  // namespace millrace::loader::pipeline
