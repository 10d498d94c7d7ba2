// BatchMemory: page-aligned buffers of one size that go back to their pool when they are let go of.
//
// A buffer that is handed out belongs to whoever holds it, for as long as they like: the pool never
// waits for one to come back but makes another. It may be outlived by its buffers, and be used by
// any number of threads. What comes back last is handed out first, since the caches may still hold
// it.
//
// Where an accelerator copies from buffers by itself, one may come back before the copy is made. A
// fence then says when it may be written again: until then others are handed out, and new ones made
// until kept_count wait for the accelerator; from there on it is waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"

namespace millrace::loader {

// What may still read a buffer that every holder has let go of. Asked by any thread.
class Fence {
 public:
  virtual ~Fence() = default;
  virtual bool is_over() const = 0;
  virtual void wait() const = 0;  // until it is over
};

// How memory is had where it must be of a certain kind, such as pinned for an accelerator. Called
// by any thread, and `free` and `fence` also after the loader is gone; none is called in a child of
// fork.
struct MemoryHooks {
  std::function<void*(size_t size_bytes)> allocate;  // page-aligned; null: there is no more
  std::function<void(void* memory, size_t size_bytes)> free;
  // Of all that was begun by now, called when the last holder lets go. Empty, or null: nothing
  // reads the buffer any more.
  std::function<std::unique_ptr<Fence>()> fence;
};

class BatchMemory {
 public:
  struct Options {
    size_t buffer_bytes = 0;
    size_t kept_count = 2;  // of buffers that nobody uses, this many at most are kept for later
    MemoryHooks hooks;      // empty: the system's memory
  };

  explicit BatchMemory(Options options);
  ~BatchMemory();

  BatchMemory(const BatchMemory&) = delete;
  BatchMemory& operator=(const BatchMemory&) = delete;

  // A buffer of buffer_bytes; what is in it is left over from its last use.
  Result<std::shared_ptr<std::byte>> take();

  void set_kept_count(size_t count);

  size_t free_count() const;         // kept for later
  uint64_t allocated_count() const;  // since the start: what was not a second use

 private:
  class Pool;
  std::shared_ptr<Pool> pool_;  // shared with the buffers that are out
};

}  // namespace millrace::loader
