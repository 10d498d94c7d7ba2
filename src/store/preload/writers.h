// Writers: which descriptors of this process write a file that other nodes will see.
//
// When one of them is closed, and when a name changes, the process waits until the other nodes know
// it (share_names). So a program of another node finds the file as soon as it hears of it in any
// other way, for example after a barrier. A file whose last descriptor was inherited, or is closed
// by the end of the process, is seen there a moment later.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "store/preload/client.h"
#include "store/preload/fast.h"

namespace millrace::store {

class Writers {
 public:
  void add(int fd) {
    if (is_counted(fd) && !in_vfork_child) word(fd).fetch_or(bit(fd), std::memory_order_relaxed);
  }

  bool has(int fd) const {
    return is_counted(fd) && (word(fd).load(std::memory_order_relaxed) & bit(fd)) != 0;
  }

  // Forgets the number. Returns whether it was one of them; a vfork child has copies of its own.
  bool take(int fd) {
    if (!has(fd) || in_vfork_child) return false;
    return (word(fd).fetch_and(~bit(fd), std::memory_order_relaxed) & bit(fd)) != 0;
  }

  bool take_range(unsigned first, unsigned last) {
    bool has_any = false;
    for (unsigned fd = first; fd <= last && fd < kNumbers; ++fd) {
      has_any = take(static_cast<int>(fd)) || has_any;
    }
    return has_any;
  }

 private:
  static constexpr unsigned kNumbers = 4096;  // higher ones are rare

  static bool is_counted(int fd) { return static_cast<unsigned>(fd) < kNumbers; }
  static uint64_t bit(int fd) { return uint64_t{1} << (static_cast<unsigned>(fd) % 64); }
  std::atomic<uint64_t>& word(int fd) { return words_[static_cast<unsigned>(fd) / 64]; }
  const std::atomic<uint64_t>& word(int fd) const { return words_[static_cast<unsigned>(fd) / 64]; }

  std::atomic<uint64_t> words_[kNumbers / 64] = {};
};

inline constinit Writers writers;

// Whether other nodes see what programs create.
inline bool is_shared() { return active() && (client.state->flags & wire::kStoreShared) != 0; }

// The result of a call that has changed a name, given its real path.
inline int sharing(const char* real, int result) {
  if (result == 0 && is_shared() && client.below_tree(real).data() != nullptr) share_names();
  return result;
}

}  // namespace millrace::store
