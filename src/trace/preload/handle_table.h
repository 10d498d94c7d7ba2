// HandleTable: what the handles of a foreign library stand for: 64 bits for each.
//
// Lock-free, and never larger: where a place of it is full another handle there is forgotten. Any
// thread may call anything at any time; two threads that put the same handle at once may leave it
// twice, and either value is found.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace::trace {

class HandleTable {
 public:
  struct Key {
    uint64_t handle;   // not 0
    uint64_t library;  // tells handles of two libraries apart; 0 where there can be only one
  };

  // 0 where the handle is not known.
  uint64_t find(const Key& key);
  void put(const Key& key, uint64_t value);
  void erase(const Key& key);

 private:
  static constexpr size_t kEntries = 16384;
  static constexpr size_t kProbes = 32;
  static constexpr Key kFree{0, 0};

  struct Entry {
    std::atomic<uint32_t> version;  // odd while it is written
    uint32_t reserved;
    std::atomic<uint64_t> handle;
    std::atomic<uint64_t> library;
    std::atomic<uint64_t> value;
  };

  Entry& entry(const Key& key, size_t probe);
  static bool holds(const Entry& entry, const Key& key);
  static bool write(Entry& entry, uint32_t version, const Key& key, uint64_t value);
  bool replace(const Key& from, const Key& to, uint64_t value);

  Entry entries_[kEntries] = {};
};

}  // namespace millrace::trace
