// Turn: lets the threads of a process append to a file one at a time.
//
// A lock that survives what a traced program may do. A forked child has its own log and its own
// turn. Signals are blocked while a thread holds the turn, so no handler can ask for it again. A
// vfork child holds the turn in its parent's name. If it is killed, the parent releases the turn
// when it continues; leave() does nothing for a thread that does not hold it.
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstdint>

#include "hook/syscall.h"

namespace millrace::trace {

class Turn {
 public:
  // REQUIRES: signals are blocked, thread is not 0.
  void take(uint32_t thread) {
    uint32_t holder = 0;
    while (!holder_.compare_exchange_strong(holder, thread, std::memory_order_acquire)) {
      if (holder == thread) return;  // held by a killed vfork child
      const timespec limit{.tv_sec = 0, .tv_nsec = 100'000'000};
      hook::own_call(SYS_futex, hook::word(&holder_), FUTEX_WAIT_PRIVATE, static_cast<long>(holder),
                     hook::word(&limit));
      holder = 0;
    }
  }

  void leave(uint32_t thread) {
    if (!holder_.compare_exchange_strong(thread, 0, std::memory_order_release)) return;
    hook::own_call(SYS_futex, hook::word(&holder_), FUTEX_WAKE_PRIVATE, 1);
  }

  void reset() { holder_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> holder_{0};
};

}  // namespace millrace::trace
