// Arena: an array that grows without moving, in memory of its own.
//
// Chunks are mapped on first use and never unmapped: an element's address stays valid for the life
// of the process, and any thread may keep it. If two threads need a chunk at the same time, both
// map one, and the loser unmaps its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hook/syscall.h"

namespace millrace::hook {

template <typename Element, size_t kElementsPerChunk, size_t kChunks>
class Arena {
 public:
  static constexpr size_t kCapacity = kElementsPerChunk * kChunks;

  // Null if the index is beyond the capacity or memory is refused. New elements are all zeros.
  Element* at(size_t index) {
    Element* chunk = find_chunk(index);
    if (__builtin_expect(chunk == nullptr, 0)) chunk = make_chunk(index);
    return chunk == nullptr ? nullptr : chunk + index % kElementsPerChunk;
  }

  // Like at(), but maps nothing: null if the index's chunk does not exist.
  Element* find(size_t index) {
    Element* chunk = find_chunk(index);
    return chunk == nullptr ? nullptr : chunk + index % kElementsPerChunk;
  }

  template <typename Visit>
  void for_each_chunk(Visit visit) {
    for (size_t i = 0; i < kChunks; ++i) {
      Element* chunk = chunks_[i].load(std::memory_order_acquire);
      if (chunk != nullptr) visit(chunk, i * kElementsPerChunk);
    }
  }

 private:
  static constexpr size_t kChunkBytes = kElementsPerChunk * sizeof(Element);

  Element* find_chunk(size_t index) {
    if (index >= kCapacity) return nullptr;
    return chunks_[index / kElementsPerChunk].load(std::memory_order_acquire);
  }

  Element* make_chunk(size_t index) {
    if (index >= kCapacity) return nullptr;
    void* memory = sys_mmap(kChunkBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == nullptr) return nullptr;
    Element* expected = nullptr;
    auto* wanted = static_cast<Element*>(memory);
    if (chunks_[index / kElementsPerChunk].compare_exchange_strong(expected, wanted)) return wanted;
    sys_munmap(memory, kChunkBytes);
    return expected;
  }

  std::atomic<Element*> chunks_[kChunks] = {};
};

}  // namespace millrace::hook
