#include "loader/pipeline/work_queue.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/clock.h"

namespace millrace::loader {
namespace {

constexpr uint64_t kRowsAtOnceMax = 64;
constexpr uint64_t kShareAhead = 8;      // of an epoch that is not begun: one part of so many
constexpr uint32_t kHeldByConsumer = 2;  // the batch that is used, and the one before

uint64_t rows_at_once(uint64_t row_count, uint32_t thread_count) {
  const uint64_t claims = BatchWork::kClaimsPerThread * std::max(thread_count, 1u);
  return std::clamp<uint64_t>(row_count / claims, 1, kRowsAtOnceMax);
}

// Of the buffers that a consumer held for long and lets go of at once, as many as it may need
// again, as far as the memory allows.
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
      setting_(setting) {}

std::shared_ptr<BatchWork> WorkQueue::take(uint32_t thread) {
  std::unique_lock lock(mutex_);
  while (!is_stopping_) {
    if (thread >= setting_.thread_count) {
      parked_.wait(lock);
      continue;
    }
    if (auto work = find_work(lock)) return work;
    if (is_stopping_ || thread >= setting_.thread_count) continue;  // while it was looked for
    count_blocked();
    ++idle_count_;
    work_.wait(lock);
    count_blocked();
    --idle_count_;
  }
  return nullptr;
}

std::shared_ptr<BatchWork> WorkQueue::try_take(uint32_t thread) {
  std::unique_lock lock(mutex_);
  if (is_stopping_ || thread >= setting_.thread_count) return nullptr;
  return find_work(lock);
}

// Lets go of the lock while it begins a batch.
std::shared_ptr<BatchWork> WorkQueue::find_work(std::unique_lock<std::mutex>& lock) {
  while (!is_stopping_) {
    if (auto work = oldest_unclaimed()) {
      // One wakes the next, so that no more threads wake than find rows.
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
  auto work = std::make_shared<BatchWork>(*std::move(scheduled), layout_);
  count_blocked();
  entries_.push_back({.work = work});
  return work;
}

// Finding the samples of a large batch takes longer than others may wait for the lock.
void WorkQueue::prepare_unlocked(std::shared_ptr<BatchWork> work,
                                 std::unique_lock<std::mutex>& lock) {
  const uint32_t thread_count = setting_.thread_count;
  lock.unlock();
  // What is called is also the code of others: a source's, an allocator's.
  try {
    if (auto status = prepare(*work, thread_count); !status.ok()) {
      work->fail_wholly(std::move(status).error());
    }
  } catch (const std::exception& exception) {
    work->fail_wholly(fail(Errc::kExhausted, "a batch cannot be begun: {}", exception.what()));
  }
  lock.lock();
  const auto entry = std::ranges::find(entries_, work, &Entry::work);
  if (entry != entries_.end()) {
    entry->is_prepared = true;
    if (work->is_done() && consumer_waits_) ready_.notify_one();
    return;
  }
  // Dropped meanwhile, and this is its last holder.
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
  return schedule_ && (entries_.size() >= setting_.prefetch_batches || is_far_ahead());
}

// Whether enough is there of epochs that may never be begun: an eighth of one, but at least the
// batch that is taken first and after it a row for every thread. docs/design/pipeline.md has why.
bool WorkQueue::is_far_ahead() const {
  if (schedule_->next_pass() <= begun_pass_) return false;
  const auto is_ahead = [&](const Entry& e) { return e.work->scheduled().pass > begun_pass_; };
  auto entry = std::ranges::find_if(entries_, is_ahead);
  if (entry == entries_.end()) return false;
  const auto ahead_count = static_cast<uint64_t>(entries_.end() - entry);
  if (ahead_count < entry->work->scheduled().share->batch_count() / kShareAhead) return false;
  uint64_t row_count = 0;
  while (++entry != entries_.end()) row_count += entry->work->row_count();
  return row_count >= setting_.thread_count;
}

// Before the number of idle threads changes, and before there is or is no room: a thread that waits
// long must be seen while it waits.
void WorkQueue::count_blocked() const {
  const auto now = monotonic_now();
  if (is_full()) blocked_ += idle_count_ * (now - blocked_until_);
  blocked_until_ = now;
}

std::chrono::nanoseconds WorkQueue::blocked() const {
  const std::lock_guard lock(mutex_);
  count_blocked();
  return blocked_;
}

void WorkQueue::wake_one() {
  if (idle_count_ > 0) work_.notify_one();
}

void WorkQueue::finished(const BatchWork& work) {
  const std::lock_guard lock(mutex_);
  if (consumer_waits_ && !entries_.empty() && entries_.front().work.get() == &work) {
    ready_.notify_one();
  }
}

WorkQueue::Front WorkQueue::look() const {
  if (is_cancelled_) return Front::kCancelled;
  if (entries_.empty()) return schedule_ ? Front::kNotReady : Front::kNothing;
  const Entry& front = entries_.front();
  return front.is_prepared && front.work->is_done() ? Front::kReady : Front::kNotReady;
}

WorkQueue::Taken WorkQueue::take_front(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  if (patience.count() > 0) {
    consumer_waits_ = true;
    ready_.wait_for(lock, patience, [&] { return look() != Front::kNotReady; });
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
  std::deque<Entry> dropped;  // freed without the lock
  const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  count_blocked();
  setting_ = setting;
  parked_.notify_all();
  work_.notify_all();
}

TunerSetting WorkQueue::setting() const {
  const std::lock_guard lock(mutex_);
  return setting_;
}

void WorkQueue::cancel() {
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  ready_.notify_all();
}

void WorkQueue::stop() {
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
  for (const Entry& entry : entries_) entry.work->drop();
  parked_.notify_all();
  work_.notify_all();
}

}  // namespace millrace::loader
