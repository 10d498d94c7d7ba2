#include "trace/preload/handle_table.h"

namespace millrace::trace {

HandleTable::Entry& HandleTable::entry(const Key& key, size_t probe) {
  uint64_t hash = (key.handle ^ key.library * 31) * 0x9e3779b97f4a7c15u;
  hash ^= hash >> 32;
  return entries_[(hash + probe) % kEntries];
}

bool HandleTable::holds(const Entry& entry, const Key& key) {
  return entry.handle.load(std::memory_order_acquire) == key.handle &&
         entry.library.load(std::memory_order_acquire) == key.library;
}

// False if the entry has changed since `version`.
bool HandleTable::write(Entry& entry, uint32_t version, const Key& key, uint64_t value) {
  if (version % 2 != 0 || !entry.version.compare_exchange_strong(version, version + 1)) {
    return false;
  }
  // Release each store, so that whoever sees one of them also sees the odd version.
  entry.handle.store(key.handle, std::memory_order_release);
  entry.library.store(key.library, std::memory_order_release);
  entry.value.store(value, std::memory_order_release);
  entry.version.store(version + 2, std::memory_order_release);
  return true;
}

uint64_t HandleTable::find(const Key& key) {
  for (size_t probe = 0; probe < kProbes; ++probe) {
    Entry& candidate = entry(key, probe);
    const uint32_t version = candidate.version.load(std::memory_order_acquire);
    if (version % 2 != 0 || !holds(candidate, key)) continue;
    const uint64_t value = candidate.value.load(std::memory_order_acquire);
    if (candidate.version.load(std::memory_order_relaxed) == version) return value;
  }
  return 0;
}

bool HandleTable::replace(const Key& from, const Key& to, uint64_t value) {
  for (size_t probe = 0; probe < kProbes; ++probe) {
    Entry& candidate = entry(to.handle != 0 ? to : from, probe);
    const uint32_t version = candidate.version.load(std::memory_order_acquire);
    if (holds(candidate, from) && write(candidate, version, to, value)) return true;
  }
  return false;
}

void HandleTable::put(const Key& key, uint64_t value) {
  if (replace(key, key, value) || replace(kFree, key, value)) return;
  Entry& home = entry(key, 0);
  write(home, home.version.load(std::memory_order_acquire), key, value);
}

void HandleTable::erase(const Key& key) { replace(key, kFree, 0); }

}  // namespace millrace::trace
