// HandleTable: maps handles of a foreign library to 64-bit values.
//
// Lock-free and of fixed size: if there is no free entry for a handle, another handle is forgotten.
// Any thread may call any function at any time. If two threads put the same handle at the same
// time, it may be stored twice, and either value may be found.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace::trace {

class HandleTable {
 public:
  struct Key {
    uint64_t handle;   // not 0
    uint64_t library;  // distinguishes handles of two libraries; 0 if there can be only one
  };

  // 0 if the handle is unknown.
  uint64_t find(const Key& key);
  void put(const Key& key, uint64_t value);
  void erase(const Key& key);

 private:
  static constexpr size_t kEntries = 16384;
  static constexpr size_t kProbes = 32;
  static constexpr Key kFree{0, 0};

  struct Entry {
    std::atomic<uint32_t> version;  // odd while the entry is being written
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
