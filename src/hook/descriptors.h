// Descriptors: the file behind each descriptor, and its position.
//
// Modeled on the kernel: a descriptor refers to an open file description, and duplicates share the
// description with its position. The number of descriptors is not limited. The table belongs to the
// process; a forked child inherits a copy. After exec it is empty: its owner adds unknown
// descriptors when they are first used.
//
// Positions are counted here, because asking the kernel would cost a system call per read. The
// kernel is asked if counting could be wrong: for descriptions that another process may share
// (opened before the last fork or spawn, or inherited), that append, or that stdio uses.
//
// Lock-free, and safe in signal handlers. If the program uses a descriptor on one thread while
// closing it on another, either file may be named.
#pragma once

#include <atomic>
#include <cstdint>

#include "hook/arena.h"
#include "hook/tagged_stack.h"

namespace millrace::hook {

inline constexpr uint64_t kNoPosition = ~uint64_t{0};

// Flags of a description.
inline constexpr uint32_t kPositionUnknown = 1;  // ask the kernel
inline constexpr uint32_t kNotSeekable = 2;      // a pipe or socket: has no position
inline constexpr uint32_t kIgnored = 4;          // the owner does not record this file

struct Description {
  std::atomic<uint64_t> position;
  std::atomic<uint32_t> file;  // the owner's number for the file
  std::atomic<uint32_t> flags;
  std::atomic<uint32_t> references;
  std::atomic<uint32_t> next_free;
  std::atomic<uint32_t> epoch;  // the epoch in which it was opened
  uint32_t reserved;

  bool ignored() const { return (flags.load(std::memory_order_relaxed) & kIgnored) != 0; }
};
static_assert(sizeof(Description) == 32);

class Descriptors {
 public:
  // Null if nothing is known about the descriptor.
  Description* find(int fd) {
    if (fd < 0) return nullptr;
    const std::atomic<uint32_t>* entry = table_.find(static_cast<size_t>(fd));
    return entry == nullptr ? nullptr : by_index(entry->load(std::memory_order_acquire));
  }

  // A new description with one descriptor. Null if memory is refused.
  Description* opened(int fd, uint32_t file, uint32_t flags);

  // `to` becomes a duplicate of `from`; if `from` is unknown, so is `to`.
  void duplicated(int from, int to);

  void closed(int fd);
  void closed_range(unsigned first, unsigned last);

  // Call at fork, vfork and spawn: from now on, another process may share what is open.
  void shared_with_child() { epoch_.fetch_add(1, std::memory_order_relaxed); }

  // Call after `moved` bytes were read or written. Returns the position before; kNoPosition if
  // there is none.
  uint64_t moved_from(Description& description, int fd, uint64_t moved);

  // The position was set by lseek.
  void positioned(Description& description, uint64_t position) {
    description.position.store(position, std::memory_order_relaxed);
  }

 private:
  Description* by_index(uint32_t index) { return index == 0 ? nullptr : descriptions_.find(index); }
  // Each descriptor has a description reserved for it, so that opening and closing usually touches
  // no list that threads share. Another one is taken only if a duplicate still holds the reserved
  // one.
  static constexpr uint32_t kHomes = 8u << 20;
  uint32_t free_index_for(int fd);
  void replace(std::atomic<uint32_t>& entry, uint32_t index);
  void release(uint32_t index);
  std::atomic<uint32_t>& next_free_of(uint32_t index);

  Arena<std::atomic<uint32_t>, 4096, 4096> table_;  // descriptor -> index of its description
  Arena<Description, 1024, 16384> descriptions_;
  TaggedStack free_;
  std::atomic<uint32_t> next_index_{kHomes + 1};
  std::atomic<uint32_t> epoch_{1};
};

}  // namespace millrace::hook
