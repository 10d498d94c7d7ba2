#include "hook/descriptors.h"

#include <unistd.h>

namespace millrace::hook {

std::atomic<uint32_t>& Descriptors::next_free_of(uint32_t index) {
  Description* description = descriptions_.find(index);
  if (description == nullptr) __builtin_unreachable();  // a freed description exists
  return description->next_free;
}

uint32_t Descriptors::free_index_for(int fd) {
  const uint32_t home = static_cast<uint32_t>(fd) + 1;
  if (home <= kHomes) {
    const Description* description = descriptions_.at(home);
    if (description == nullptr || description->references.load(std::memory_order_acquire) == 0) {
      return home;
    }
  }
  const uint32_t index =
      free_.pop([this](uint32_t i) -> std::atomic<uint32_t>& { return next_free_of(i); });
  return index != 0 ? index : next_index_.fetch_add(1, std::memory_order_relaxed);
}

// Nothing else changes this entry at the same time, unless the program itself races on the
// descriptor.
void Descriptors::replace(std::atomic<uint32_t>& entry, uint32_t index) {
  const uint32_t before = entry.load(std::memory_order_acquire);
  entry.store(index, std::memory_order_release);
  release(before);
}

Description* Descriptors::opened(int fd, uint32_t file, uint32_t flags) {
  if (fd < 0) return nullptr;
  std::atomic<uint32_t>* entry = table_.at(static_cast<size_t>(fd));
  if (entry == nullptr) return nullptr;
  replace(*entry, 0);
  const uint32_t index = free_index_for(fd);
  Description* description = descriptions_.at(index);
  if (description == nullptr) return nullptr;
  description->position.store(0, std::memory_order_relaxed);
  description->file.store(file, std::memory_order_relaxed);
  description->flags.store(flags, std::memory_order_relaxed);
  description->epoch.store(epoch_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  description->references.store(1, std::memory_order_release);
  entry->store(index, std::memory_order_release);
  return description;
}

void Descriptors::duplicated(int from, int to) {
  if (to < 0 || from == to) return;
  std::atomic<uint32_t>* target = table_.at(static_cast<size_t>(to));
  if (target == nullptr) return;
  uint32_t index = 0;
  if (const auto* source = from < 0 ? nullptr : table_.find(static_cast<size_t>(from))) {
    index = source->load(std::memory_order_acquire);
  }
  if (index != 0) by_index(index)->references.fetch_add(1, std::memory_order_relaxed);
  replace(*target, index);
}

void Descriptors::closed(int fd) {
  if (fd < 0) return;
  std::atomic<uint32_t>* entry = table_.find(static_cast<size_t>(fd));
  if (entry != nullptr) replace(*entry, 0);
}

void Descriptors::closed_range(unsigned first, unsigned last) {
  table_.for_each_chunk([&](std::atomic<uint32_t>*, size_t chunk_first) {
    for (size_t fd = chunk_first; fd < chunk_first + 4096; ++fd) {
      if (fd >= first && fd <= last) closed(static_cast<int>(fd));
    }
  });
}

void Descriptors::release(uint32_t index) {
  if (index == 0) return;
  Description* description = by_index(index);
  // No other thread can duplicate the last descriptor of a description.
  if (description->references.load(std::memory_order_acquire) == 1) {
    description->references.store(0, std::memory_order_release);
  } else if (description->references.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  if (index <= kHomes) return;
  free_.push(index, [this](uint32_t i) -> std::atomic<uint32_t>& { return next_free_of(i); });
}

uint64_t Descriptors::moved_from(Description& description, int fd, uint64_t moved) {
  const uint32_t flags = description.flags.load(std::memory_order_relaxed);
  if ((flags & kNotSeekable) != 0) return kNoPosition;
  const bool alone =
      description.epoch.load(std::memory_order_relaxed) == epoch_.load(std::memory_order_relaxed);
  if (__builtin_expect(alone && (flags & kPositionUnknown) == 0, 1)) {
    return description.position.fetch_add(moved, std::memory_order_relaxed);
  }
  const long position = sys_lseek(fd, 0, SEEK_CUR);
  if (position < 0) {
    description.flags.fetch_or(kNotSeekable, std::memory_order_relaxed);
    return kNoPosition;
  }
  return static_cast<uint64_t>(position) - moved;
}

}  // namespace millrace::hook
