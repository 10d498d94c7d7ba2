// ForkSentinel: a word that the kernel zeroes in every forked child.
//
// pthread_atfork handlers miss children made by clone or a raw system call. A page with
// MADV_WIPEONFORK misses none. A vfork child shares its parent's memory, so its word is not zeroed.
#pragma once

#include <atomic>
#include <cstdint>

#include "hook/syscall.h"

namespace millrace::hook {

class ForkSentinel {
 public:
  // The value last set in this process; 0 in a child that has not set one.
  uint32_t value() const { return word_->load(std::memory_order_relaxed); }
  void set(uint32_t value) { word_->store(value, std::memory_order_relaxed); }

  // False if the kernel has no MADV_WIPEONFORK (before 4.14). The fork hook must then call set(0)
  // in the child.
  bool install() {
    void* page = sys_mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == nullptr) return false;
    const bool wiped = sys_madvise(page, 4096, MADV_WIPEONFORK) == 0;
    word_ = static_cast<std::atomic<uint32_t>*>(page);
    return wiped;
  }

 private:
  std::atomic<uint32_t> before_install_{0};
  std::atomic<uint32_t>* word_ = &before_install_;
};

}  // namespace millrace::hook
