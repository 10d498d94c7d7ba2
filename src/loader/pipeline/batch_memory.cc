#include "loader/pipeline/batch_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/system/memory.h"
#include "base/text/units.h"

namespace millrace::loader::pipeline {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

// A mapping, not aligned_alloc: freed memory returns to the system at once, and the start can be
// aligned to a huge page.
std::byte* map_memory(size_t size_bytes) {
  const bool is_large = size_bytes >= kHugePageBytes;
  const size_t mapped_bytes = size_bytes + (is_large ? kHugePageBytes : 0);
  void* mapped =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* bytes = static_cast<std::byte*>(mapped);
  if (!is_large) return bytes;
  const size_t past = reinterpret_cast<uintptr_t>(bytes) % kHugePageBytes;
  const size_t before = past == 0 ? 0 : kHugePageBytes - past;
  if (before > 0) munmap(bytes, before);
  if (before < kHugePageBytes) munmap(bytes + before + size_bytes, kHugePageBytes - before);
  // With huge pages, the first touch takes a third of the time (docs/design/pipeline.md). Only a
  // hint: the buffer also works if the kernel has no huge pages.
  static_cast<void>(madvise(bytes + before, size_bytes, MADV_HUGEPAGE));
  return bytes + before;
}

// Rounds up to the kernel's page size: munmap fails if the address after the buffer is not aligned
// to it.
size_t whole_pages(size_t size_bytes) {
  const size_t page = page_bytes();
  return (std::max<size_t>(size_bytes, 1) + page - 1) / page * page;
}

}  // namespace

class BatchMemory::Pool {
 public:
  explicit Pool(Options options)
      : options_(std::move(options)),
        size_bytes_(whole_pages(options_.buffer_bytes)),
        kept_count_(options_.kept_count) {}

  ~Pool() { close(); }

  Result<std::byte*> take() {
    MutexLock lock(mutex_);
    if (auto ready = take_back()) {
      lock.unlock();
      if (ready->fence) ready->fence->wait();
      return ready->bytes;
    }
    ++allocated_count_;
    lock.unlock();
    void* memory =
        options_.hooks.allocate ? options_.hooks.allocate(size_bytes_) : map_memory(size_bytes_);
    if (memory == nullptr) {
      return fail(Errc::kExhausted,
                  "no memory for a batch of {}; use smaller batches, or release those you hold",
                  format_bytes(size_bytes_));
    }
    return static_cast<std::byte*>(memory);
  }

  void put_back(std::byte* bytes) {
    // In a child of fork, a thread that does not exist there may hold the lock, and an
    // accelerator's functions must not be called. The buffer lives until the child exits.
    if (!is_of_this_process()) return;
    Returned buffer{bytes, options_.hooks.fence ? options_.hooks.fence() : nullptr};
    std::vector<Returned> surplus;
    {
      const MutexLock lock(mutex_);
      (is_closed_ ? surplus : returned_).push_back(std::move(buffer));
      move_surplus(surplus);
    }
    free_all(surplus);
  }

  void set_kept_count(size_t count) {
    std::vector<Returned> surplus;
    {
      const MutexLock lock(mutex_);
      kept_count_ = count;
      move_surplus(surplus);
    }
    free_all(surplus);
  }

  // From now on, frees returned buffers, because nobody takes them any more.
  void close() {
    if (!is_of_this_process()) return;
    std::vector<Returned> surplus;
    {
      const MutexLock lock(mutex_);
      is_closed_ = true;
      surplus.swap(returned_);
    }
    free_all(surplus);
  }

  size_t free_count() const {
    const MutexLock lock(mutex_);
    return returned_.size();
  }

  uint64_t allocated_count() const {
    const MutexLock lock(mutex_);
    return allocated_count_;
  }

 private:
  struct Returned {
    std::byte* bytes = nullptr;
    std::unique_ptr<Fence> fence;

    bool is_free() const { return fence == nullptr || fence->is_over(); }
  };

  bool is_of_this_process() const { return getpid() == pid_; }

  // A buffer to reuse: the last that is free or, if enough are fenced, the one fenced longest.
  std::optional<Returned> take_back() REQUIRES(mutex_) {
    const auto from =
        std::ranges::find_if(returned_.rbegin(), returned_.rend(), &Returned::is_free);
    if (from == returned_.rend() && (returned_.empty() || returned_.size() < kept_count_)) {
      return std::nullopt;
    }
    const auto chosen = from == returned_.rend() ? returned_.begin() : std::prev(from.base());
    Returned buffer = std::move(*chosen);
    returned_.erase(chosen);
    return buffer;
  }

  // Takes out the buffers beyond kept_count. Fenced ones stay: releasing a buffer must not wait.
  void move_surplus(std::vector<Returned>& surplus) REQUIRES(mutex_) {
    for (size_t i = 0; i < returned_.size() && returned_.size() > kept_count_;) {
      if (!returned_[i].is_free()) {
        ++i;
        continue;
      }
      surplus.push_back(std::move(returned_[i]));
      returned_.erase(returned_.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  void free_all(const std::vector<Returned>& surplus) const {
    for (const Returned& buffer : surplus) {
      if (buffer.fence) buffer.fence->wait();
      if (!options_.hooks.allocate) {
        munmap(buffer.bytes, size_bytes_);
      } else if (options_.hooks.free) {
        options_.hooks.free(buffer.bytes, size_bytes_);
      }
    }
  }

  const Options options_;
  const size_t size_bytes_;
  const pid_t pid_ = getpid();
  mutable Mutex mutex_;
  std::vector<Returned> returned_ GUARDED_BY(mutex_);  // in order of return
  bool is_closed_ GUARDED_BY(mutex_) = false;
  size_t kept_count_ GUARDED_BY(mutex_);
  uint64_t allocated_count_ GUARDED_BY(mutex_) = 0;
};

BatchMemory::BatchMemory(Options options) : pool_(std::make_shared<Pool>(std::move(options))) {}

BatchMemory::~BatchMemory() { pool_->close(); }

Result<std::shared_ptr<std::byte>> BatchMemory::take() {
  ASSIGN_OR_RETURN(std::byte* const buffer, pool_->take());
  return std::shared_ptr<std::byte>(buffer,
                                    [pool = pool_](std::byte* bytes) { pool->put_back(bytes); });
}

void BatchMemory::set_kept_count(size_t count) { pool_->set_kept_count(count); }

size_t BatchMemory::free_count() const { return pool_->free_count(); }

uint64_t BatchMemory::allocated_count() const { return pool_->allocated_count(); }

}  // namespace millrace::loader::pipeline
