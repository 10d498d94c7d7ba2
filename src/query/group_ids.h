// GroupIds: numbers combinations of keys from 0, in the order of first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::query {

class GroupIds {
 public:
  // The number of the combination of `parent` (another number, or 0) and `key`.
  uint32_t id(uint32_t parent, uint64_t key) {
    if (2 * count_ >= slots_.size()) grow();
    Slot& slot = slots_[find(parent, key)];
    if (!slot.used) slot = {.key = key, .parent = parent, .id = count_++, .used = true};
    return slot.id;
  }

  uint32_t count() const { return count_; }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t parent = 0;
    uint32_t id = 0;
    bool used = false;
  };

  size_t find(uint32_t parent, uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    const uint64_t mixed = (key ^ (uint64_t{parent} << 40) ^ parent) * 0x9e3779b97f4a7c15U;
    size_t at = (mixed >> 32) & mask;
    while (slots_[at].used && (slots_[at].key != key || slots_[at].parent != parent)) {
      at = (at + 1) & mask;
    }
    return at;
  }

  void grow() {
    std::vector<Slot> before(slots_.empty() ? 1024 : 2 * slots_.size());
    before.swap(slots_);
    for (const Slot& slot : before) {
      if (slot.used) slots_[find(slot.parent, slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  uint32_t count_ = 0;
};

}  // namespace millrace::query
