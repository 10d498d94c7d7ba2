// KeptPermutations: a cache of recently used keyed permutations, so that looking up one position
// does not derive a key each time.
//
// A block of Philox and the eight numbers drawn from it take longer than sending one number through
// the permutation. The cache holds round keys by name (epoch, which). Each name has one entry; a
// later name replaces an earlier one. Thread-safe, and no thread waits: a reader that meets a
// writer derives the keys itself, and so does a writer that meets another. Each entry has a
// version, odd while it is written; what is read between two equal even versions is consistent.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "base/numbers/permutation.h"

namespace millrace::loader::order {

class KeptPermutations {
 public:
  static constexpr uint64_t kEntryCountMax = 1024;

  // `which` is below `which_count` in all names; 0 means 1. Sixteen epochs have separate entries if
  // that takes at most `entry_count_max` entries (a power of two) of 128 bytes.
  explicit KeptPermutations(uint64_t which_count, uint64_t entry_count_max = kEntryCountMax)
      : stride_(std::bit_ceil(std::min(which_count, entry_count_max))),
        mask_(std::min(stride_ * kEpochCount, entry_count_max) - 1),
        entries_(std::make_unique<Entry[]>(mask_ + 1)) {}

  // Starts empty: cached keys are not part of the value of an order.
  KeptPermutations(const KeptPermutations& other)
      : KeptPermutations(other.stride_, other.mask_ + 1) {}
  KeptPermutations& operator=(const KeptPermutations&) = delete;

  // `numbers` with the keys of that name, from the cache or from derive(). REQUIRES: equal names
  // have equal sizes and keys
  template <typename Derive>
  KeyedPermutation find(const KeyedPermutation& numbers, uint64_t epoch, uint64_t which,
                        Derive derive) const {
    Entry& entry = entries_[index_of(epoch, which)];
    KeyedPermutation::RoundKeys keys;
    if (entry.read(epoch, which, keys)) return numbers.with_round_keys(keys);
    const KeyedPermutation derived = derive();
    entry.write(epoch, which, derived.round_keys());
    return derived;
  }

 private:
  struct alignas(128) Entry {
    std::atomic<uint64_t> version{0};  // 0: empty
    std::atomic<uint64_t> epoch{0};
    std::atomic<uint64_t> which{0};
    std::array<std::atomic<uint64_t>, KeyedPermutation::kRounds> keys{};

    // Acquire and release at each word instead of fences, which ThreadSanitizer does not support. A
    // reader of a later writer's word then sees that writer's odd version. Free on x86.
    bool read(uint64_t asked_epoch, uint64_t asked_which, KeyedPermutation::RoundKeys& out) const {
      const uint64_t before = version.load(std::memory_order_acquire);
      if (before == 0 || before % 2 != 0) return false;
      if (epoch.load(std::memory_order_acquire) != asked_epoch) return false;
      if (which.load(std::memory_order_acquire) != asked_which) return false;
      for (size_t i = 0; i < out.size(); ++i) out[i] = keys[i].load(std::memory_order_acquire);
      return version.load(std::memory_order_relaxed) == before;
    }

    void write(uint64_t new_epoch, uint64_t new_which, const KeyedPermutation::RoundKeys& in) {
      uint64_t before = version.load(std::memory_order_relaxed);
      if (before % 2 != 0) return;
      if (!version.compare_exchange_strong(before, before + 1, std::memory_order_acquire)) return;
      epoch.store(new_epoch, std::memory_order_release);
      which.store(new_which, std::memory_order_release);
      for (size_t i = 0; i < in.size(); ++i) keys[i].store(in[i], std::memory_order_release);
      version.store(before + 2, std::memory_order_release);
    }
  };

  static constexpr uint64_t kEpochCount = 16;

  uint64_t index_of(uint64_t epoch, uint64_t which) const {
    return (epoch * stride_ + which) & mask_;
  }

  uint64_t stride_;
  uint64_t mask_;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace millrace::loader::order
