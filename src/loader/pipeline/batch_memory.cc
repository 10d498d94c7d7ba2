#include "loader/pipeline/batch_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/units.h"

namespace millrace::loader {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

// A mapping and not aligned_alloc: what is freed goes back to the system at once, and the start
// can be put where a huge page can begin.
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
  // They are touched for the first time in a third of the time (docs/design/pipeline.md). Only a
  // wish: where the kernel has no huge pages, the buffer works as well.
  static_cast<void>(madvise(bytes + before, size_bytes, MADV_HUGEPAGE));
  return bytes + before;
}

// The kernel's own: what lies past a buffer is unmapped from a page's start on, or not at all.
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

  ~Pool() {
    for (std::byte* buffer : free_) give_up(buffer);
  }

  Result<std::byte*> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::byte* buffer = free_.back();
        free_.pop_back();
        return buffer;
      }
      ++allocated_count_;
    }
    void* memory =
        options_.hooks.allocate ? options_.hooks.allocate(size_bytes_) : map_memory(size_bytes_);
    if (memory == nullptr) {
      return fail(Errc::kExhausted,
                  "no memory for a batch of {}; take smaller batches, or let go of those held",
                  format_bytes(size_bytes_));
    }
    return static_cast<std::byte*>(memory);
  }

  void put_back(std::byte* buffer) {
    // In a child of fork the lock may be held by a thread that is not there, and an accelerator's
    // functions may not be called: the buffer ends with the child.
    if (getpid() != pid_) return;
    {
      const std::lock_guard lock(mutex_);
      if (free_.size() < kept_count_) {
        free_.push_back(buffer);
        return;
      }
    }
    give_up(buffer);
  }

  void set_kept_count(size_t count) {
    std::vector<std::byte*> surplus;
    {
      const std::lock_guard lock(mutex_);
      kept_count_ = count;
      while (free_.size() > count) {
        surplus.push_back(free_.back());
        free_.pop_back();
      }
    }
    for (std::byte* buffer : surplus) give_up(buffer);
  }

  size_t free_count() const {
    const std::lock_guard lock(mutex_);
    return free_.size();
  }

  uint64_t allocated_count() const {
    const std::lock_guard lock(mutex_);
    return allocated_count_;
  }

  bool is_of_this_process() const { return getpid() == pid_; }

 private:
  void give_up(std::byte* buffer) const {
    if (getpid() != pid_) return;
    if (!options_.hooks.allocate) {
      munmap(buffer, size_bytes_);
    } else if (options_.hooks.free) {
      options_.hooks.free(buffer, size_bytes_);
    }
  }

  const Options options_;
  const size_t size_bytes_;
  const pid_t pid_ = getpid();
  mutable std::mutex mutex_;
  std::vector<std::byte*> free_;
  size_t kept_count_;
  uint64_t allocated_count_ = 0;
};

BatchMemory::BatchMemory(Options options) : pool_(std::make_shared<Pool>(std::move(options))) {}

BatchMemory::~BatchMemory() {
  // What comes back from now on is not kept: nobody takes it any more.
  if (pool_->is_of_this_process()) pool_->set_kept_count(0);
}

Result<std::shared_ptr<std::byte>> BatchMemory::take() {
  ASSIGN_OR_RETURN(std::byte* const buffer, pool_->take());
  return std::shared_ptr<std::byte>(buffer,
                                    [pool = pool_](std::byte* bytes) { pool->put_back(bytes); });
}

void BatchMemory::set_kept_count(size_t count) { pool_->set_kept_count(count); }

size_t BatchMemory::free_count() const { return pool_->free_count(); }

uint64_t BatchMemory::allocated_count() const { return pool_->allocated_count(); }

}  // namespace millrace::loader
