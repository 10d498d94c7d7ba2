#include "loader/pipeline/work_queue.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/system/clock.h"

namespace millrace::loader::pipeline {
namespace {

constexpr uint64_t kRowsAtOnceMax = 64;
constexpr uint64_t kShareAhead = 8;      // prefetch an eighth of an epoch that has not begun
constexpr uint32_t kHeldByConsumer = 2;  // the batch in use and the one before

uint64_t rows_at_once(uint64_t row_count, uint32_t thread_count) {
  const uint64_t claims = BatchWork::kClaimsPerThread * std::max(thread_count, 1u);
  return std::clamp<uint64_t>(row_count / claims, 1, kRowsAtOnceMax);
}

// How many returned buffers to keep. A consumer may release many at once that it has held for long:
// keep as many as it may need again, if the memory allows.
size_t kept_count(const TunerSetting& setting, uint32_t buffer_count_max) {
  const uint32_t most = setting.prefetch_batches + kHeldByConsumer;
  const uint32_t left = buffer_count_max - std::min(buffer_count_max, setting.prefetch_batches);
  return std::clamp(left, kHeldByConsumer, most);
}

}  // namespace

WorkQueue::WorkQueue(Options options, const BatchLayout& layout, const TunerSetting& setting)
    : options_(std::move(options)),
      layout_(layout),
      memory_({.buffer_bytes = layout.size_bytes,
               .kept_count = kept_count(setting, options_.buffer_count_max),
               .hooks = options_.hooks}),
      ragged_(options_.hooks, options_.memory_bytes),
      setting_(setting) {}

std::shared_ptr<BatchWork> WorkQueue::take(uint32_t thread) {
  MutexLock lock(mutex_);
  while (!is_stopping_) {
    if (thread >= setting_.thread_count) {
      parked_.wait(lock);
      continue;
    }
    if (auto work = find_work(lock)) return work;
    if (is_stopping_ || thread >= setting_.thread_count) continue;  // changed in find_work()
    count_blocked();
    ++idle_count_;
    work_.wait(lock);
    count_blocked();
    --idle_count_;
  }
  return nullptr;
}

std::shared_ptr<BatchWork> WorkQueue::try_take(uint32_t thread) {
  MutexLock lock(mutex_);
  if (is_stopping_ || thread >= setting_.thread_count) return nullptr;
  return find_work(lock);
}

// Releases the lock while it begins a batch.
std::shared_ptr<BatchWork> WorkQueue::find_work(MutexLock& lock) {
  while (!is_stopping_) {
    if (auto work = oldest_unclaimed()) {
      // Each thread wakes the next, so that no thread wakes without finding rows.
      wake_one();
      return work;
    }
    auto begun = begin_next();
    if (!begun) break;
    prepare_unlocked(std::move(begun), lock);
  }
  return nullptr;
}

std::shared_ptr<BatchWork> WorkQueue::oldest_unclaimed() const {
  for (const Entry& entry : entries_) {
    if (entry.is_prepared && entry.work->has_unclaimed()) return entry.work;
  }
  return nullptr;
}

std::shared_ptr<BatchWork> WorkQueue::begin_next() {
  if (!schedule_ || is_full()) return nullptr;
  auto scheduled = schedule_->next();
  if (!scheduled) {
    schedule_.reset();
    if (consumer_waits_) ready_.notify_one();
    return nullptr;
  }
  auto work = std::make_shared<BatchWork>(*std::move(scheduled), layout_, &ragged_);
  count_blocked();
  entries_.push_back({.work = work});
  return work;
}

// Without the lock, because finding the samples of a large batch takes too long to hold it.
void WorkQueue::prepare_unlocked(std::shared_ptr<BatchWork> work, MutexLock& lock) {
  const uint32_t thread_count = setting_.thread_count;
  lock.unlock();
  // This calls foreign code, of a source and an allocator, which may throw.
  try {
    if (auto status = prepare(*work, thread_count); !status.ok()) {
      work->fail_wholly(std::move(status).error());
    }
  } catch (const std::exception& exception) {
    work->fail_wholly(fail(Errc::kExhausted, "cannot begin a batch: {}", exception.what()));
  }
  lock.lock();
  const auto entry = std::ranges::find(entries_, work, &Entry::work);
  if (entry != entries_.end()) {
    entry->is_prepared = true;
    if (work->is_done()) announce(*work, lock);
    return;
  }
  // The batch was dropped meanwhile. Free it without the lock.
  lock.unlock();
  work.reset();
  lock.lock();
}

Status WorkQueue::prepare(BatchWork& work, uint32_t thread_count) {
  RETURN_IF_ERROR(work.prepare(memory_, rows_at_once(work.row_count(), thread_count)));
  options_.source->prepare(work.samples());
  return {};
}

bool WorkQueue::is_full() const {
  return schedule_ &&
         (entries_.size() >= setting_.prefetch_batches ||
          (layout_.has_ragged && entries_.size() >= ragged_.batches_allowed(layout_.size_bytes)) ||
          is_far_ahead());
}

// Whether enough batches are in progress of epochs that may never begin: an eighth of an epoch, but
// at least its first batch and then a row per thread. docs/design/pipeline.md explains why.
bool WorkQueue::is_far_ahead() const {
  if (schedule_->next_pass() <= begun_pass_) return false;
  const auto is_ahead = [begun = begun_pass_](const Entry& e) {
    return e.work->scheduled().pass > begun;
  };
  auto entry = std::ranges::find_if(entries_, is_ahead);
  if (entry == entries_.end()) return false;
  const auto ahead_count = static_cast<uint64_t>(entries_.end() - entry);
  if (ahead_count < entry->work->scheduled().share->batch_count() / kShareAhead) return false;
  uint64_t row_count = 0;
  while (++entry != entries_.end()) row_count += entry->work->row_count();
  return row_count >= setting_.thread_count;
}

// Call this before idle_count_ or is_full() changes. The time of a thread that waits must count
// while it still waits.
void WorkQueue::count_blocked() const {
  const auto now = monotonic_now();
  if (is_full()) blocked_ += idle_count_ * (now - blocked_until_);
  blocked_until_ = now;
}

std::chrono::nanoseconds WorkQueue::blocked() const {
  const MutexLock lock(mutex_);
  count_blocked();
  return blocked_;
}

void WorkQueue::wake_one() {
  if (idle_count_ > 0) work_.notify_one();
}

void WorkQueue::finished(const BatchWork& work) {
  MutexLock lock(mutex_);
  // A batch that was dropped is not part of the order that the source knows now.
  if (std::ranges::any_of(entries_, [&](const Entry& each) { return each.work.get() == &work; })) {
    lock.unlock();
    options_.source->finished(work.samples());
    lock.lock();
  }
  // Its size is known now, so that more batches may be in progress than before.
  if (layout_.has_ragged) wake_one();
  announce(work, lock);
}

// Tells the consumer that `work` is done, if that is what it takes next.
void WorkQueue::announce(const BatchWork& work, MutexLock& lock) {
  if (entries_.empty() || entries_.front().work.get() != &work) return;
  if (consumer_waits_) ready_.notify_one();
  if (!options_.on_ready) return;
  lock.unlock();
  options_.on_ready();
  lock.lock();
}

bool WorkQueue::is_front_known() const {
  const MutexLock lock(mutex_);
  return look() != Front::kNotReady;
}

WorkQueue::Front WorkQueue::look() const {
  if (is_cancelled_) return Front::kCancelled;
  if (entries_.empty()) return schedule_ ? Front::kNotReady : Front::kNothing;
  const Entry& front = entries_.front();
  return front.is_prepared && front.work->is_done() ? Front::kReady : Front::kNotReady;
}

WorkQueue::Taken WorkQueue::take_front(std::chrono::nanoseconds patience) {
  MutexLock lock(mutex_);
  if (patience.count() > 0) {
    consumer_waits_ = true;
    ready_.wait_for(lock, patience, [&]() REQUIRES(mutex_) { return look() != Front::kNotReady; });
    consumer_waits_ = false;
  }
  Taken taken{.front = look()};
  if (taken.front == Front::kReady) {
    count_blocked();
    taken.work = std::move(entries_.front().work);
    entries_.pop_front();
    wake_one();
  }
  return taken;
}

void WorkQueue::restart(BatchSchedule schedule) {
  std::deque<Entry> dropped;  // destroyed after the lock is released
  const MutexLock lock(mutex_);
  count_blocked();
  for (const Entry& entry : entries_) entry.work->drop();
  dropped.swap(entries_);
  schedule_ = std::move(schedule);
  begun_pass_ = 0;
  is_cancelled_ = false;
  work_.notify_all();
}

bool WorkQueue::skip_to(data::Epoch epoch) {
  std::deque<Entry> dropped;
  const MutexLock lock(mutex_);
  const auto first = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.work->scheduled().epoch == epoch && entry.work->scheduled().is_first;
  });
  if (first == entries_.end() && !(schedule_ && schedule_->is_at_start_of(epoch))) return false;
  count_blocked();
  begun_pass_ = first != entries_.end() ? first->work->scheduled().pass : schedule_->next_pass();
  for (auto entry = entries_.begin(); entry != first; ++entry) {
    entry->work->drop();
    dropped.push_back(*entry);
  }
  entries_.erase(entries_.begin(), first);
  is_cancelled_ = false;
  work_.notify_all();
  return true;
}

void WorkQueue::set(const TunerSetting& setting) {
  memory_.set_kept_count(kept_count(setting, options_.buffer_count_max));
  const MutexLock lock(mutex_);
  count_blocked();
  setting_ = setting;
  parked_.notify_all();
  work_.notify_all();
}

TunerSetting WorkQueue::setting() const {
  const MutexLock lock(mutex_);
  return setting_;
}

void WorkQueue::cancel() {
  const MutexLock lock(mutex_);
  is_cancelled_ = true;
  ready_.notify_all();
}

void WorkQueue::stop() {
  const MutexLock lock(mutex_);
  is_stopping_ = true;
  for (const Entry& entry : entries_) entry.work->drop();
  parked_.notify_all();
  work_.notify_all();
}

}  // namespace millrace::loader::pipeline
