// TaggedStack: a lock-free list of free indices.
//
// Any thread may push and pop, also in a signal handler. The head contains a count of changes, so
// that an index that was popped and pushed again in between is detected.
#pragma once

#include <atomic>
#include <cstdint>

namespace millrace::hook {

class TaggedStack {
 public:
  // `next_of(index)` returns the std::atomic<uint32_t> that links an index. Index 0 means none.
  template <typename NextOf>
  void push(uint32_t index, NextOf next_of) {
    uint64_t head = head_.load(std::memory_order_relaxed);
    uint64_t wanted;
    do {
      next_of(index).store(static_cast<uint32_t>(head), std::memory_order_relaxed);
      wanted = ((head >> 32) + 1) << 32 | index;
    } while (!head_.compare_exchange_weak(head, wanted, std::memory_order_release,
                                          std::memory_order_relaxed));
  }

  // 0 if the stack is empty.
  template <typename NextOf>
  uint32_t pop(NextOf next_of) {
    uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const auto index = static_cast<uint32_t>(head);
      if (index == 0) return 0;
      const uint32_t next = next_of(index).load(std::memory_order_relaxed);
      const uint64_t wanted = ((head >> 32) + 1) << 32 | next;
      if (head_.compare_exchange_weak(head, wanted, std::memory_order_acquire,
                                      std::memory_order_acquire)) {
        return index;
      }
    }
  }

  void clear() { head_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> head_{0};
};

}  // namespace millrace::hook
