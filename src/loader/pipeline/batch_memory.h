// BatchMemory: page-aligned buffers of one size that return to their pool when released.
//
// A holder may keep a buffer as long as it likes: the pool does not wait for its return but
// allocates another. Buffers may outlive the pool. Thread-safe. The buffer returned last is handed
// out first, because it may still be in the CPU caches.
//
// If an accelerator copies from buffers asynchronously, a buffer may return before its copy is
// done. A fence then tells when it may be written again. Until then the pool hands out other
// buffers and allocates new ones, until kept_count buffers wait for the accelerator. After that it
// waits for the oldest fence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"

namespace millrace::loader::pipeline {

// Work that may still read a buffer after its last holder has released it. Thread-safe.
class Fence {
 public:
  virtual ~Fence() = default;
  virtual bool is_over() const = 0;
  virtual void wait() const = 0;  // until is_over()
};

// How to allocate special memory, such as pinned memory for an accelerator. Called on any thread;
// `free` and `fence` also after the loader is gone. None is called in a child of fork.
struct MemoryHooks {
  std::function<void*(size_t size_bytes)> allocate;  // page-aligned; null: out of memory
  std::function<void(void* memory, size_t size_bytes)> free;
  // Called when the last holder releases a buffer. Returns a fence for all work begun so far. No
  // hook, or a null fence: nothing reads the buffer any more.
  std::function<std::unique_ptr<Fence>()> fence;
};

class BatchMemory {
 public:
  struct Options {
    size_t buffer_bytes = 0;
    size_t kept_count = 2;  // maximum number of unused buffers to keep
    MemoryHooks hooks;      // empty: ordinary memory
  };

  explicit BatchMemory(Options options);
  ~BatchMemory();

  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;

  // A buffer of buffer_bytes, with whatever its last use left in it.
  Result<std::shared_ptr<std::byte>> take();

  void set_kept_count(size_t count);

  size_t free_count() const;         // unused buffers kept
  uint64_t allocated_count() const;  // since the start; excludes reuse

 private:
  class Pool;
  std::shared_ptr<Pool> pool_;  // shared with the buffers handed out
};

}  // namespace millrace::loader::pipeline
