// Descriptors: which file is behind a descriptor, and where in it the next read or write goes.
//
// As the kernel has it: a descriptor refers to an open file description, which duplicates share,
// with its position. Any number of descriptors. The table is the process's own; a forked child
// inherits it with the memory, and a program started by exec begins with an empty one, into which
// its owner puts what it finds (unknown descriptors are asked for when first used).
//
// Positions are counted along, because asking the kernel costs a system call for every read. Where
// counting cannot be right, the kernel is asked: for descriptions that another process may share
// (opened before the last fork or spawn, or inherited), that append, or that stdio works on.
//
// Lock-free, and safe in signal handlers. Where the program itself uses a descriptor on one thread
// while closing it on another, either file may be named.
#pragma once

#include <atomic>
#include <cstdint>

#include "hook/arena.h"
#include "hook/tagged_stack.h"

namespace millrace::hook {

inline constexpr uint64_t kNoPosition = ~uint64_t{0};

// Flags of a description.
inline constexpr uint32_t kPositionUnknown = 1;  // the kernel must be asked
inline constexpr uint32_t kNotSeekable = 2;      // a pipe, a socket: there is no position
inline constexpr uint32_t kIgnored = 4;          // its owner does not care for this file

struct Description {
  std::atomic<uint64_t> position;
  std::atomic<uint32_t> file;  // the owner's number for the file
  std::atomic<uint32_t> flags;
  std::atomic<uint32_t> references;
  std::atomic<uint32_t> next_free;
  std::atomic<uint32_t> epoch;  // in which it was opened
  uint32_t reserved;

  bool ignored() const { return (flags.load(std::memory_order_relaxed) & kIgnored) != 0; }
};
static_assert(sizeof(Description) == 32);

class Descriptors {
 public:
  // Null where nothing is known of the descriptor.
  Description* find(int fd) {
    if (fd < 0) return nullptr;
    const std::atomic<uint32_t>* entry = table_.find(static_cast<size_t>(fd));
    return entry == nullptr ? nullptr : by_index(entry->load(std::memory_order_acquire));
  }

  // A new description, known by one descriptor. Null where memory is refused.
  Description* opened(int fd, uint32_t file, uint32_t flags);

  // `to` now is the same description as `from`, or unknown where that is.
  void duplicated(int from, int to);

  void closed(int fd);
  void closed_range(unsigned first, unsigned last);

  // Another process may from now on share what is open: fork, vfork, spawn.
  void shared_with_child() { epoch_.fetch_add(1, std::memory_order_relaxed); }

  // After a call that moved the position by `moved` bytes: where it had begun. kNoPosition where
  // there is none.
  uint64_t moved_from(Description& description, int fd, uint64_t moved);

  // The position was set (lseek).
  void positioned(Description& description, uint64_t position) {
    description.position.store(position, std::memory_order_relaxed);
  }

 private:
  Description* by_index(uint32_t index) { return index == 0 ? nullptr : descriptions_.find(index); }
  // Each descriptor has a description of its own at hand, so that opening and closing, which is
  // what nearly all do, touches no list that threads share. Only where a duplicate still holds it
  // is another one taken from the rest.
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
