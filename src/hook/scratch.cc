#include "hook/scratch.h"

#include "hook/arena.h"
#include "hook/tagged_stack.h"

namespace millrace::hook {
namespace {

struct alignas(64) Buffer {
  std::atomic<uint32_t> next_free;
  uint32_t index;
  alignas(64) char memory[kScratchBytes];
};
static_assert(sizeof(Buffer) == kScratchBytes + 64);

constinit Arena<Buffer, 8, 4096> buffers;
constinit TaggedStack free_buffers;
constinit std::atomic<uint32_t> next_index{1};  // 0 means none

std::atomic<uint32_t>& next_of(uint32_t index) {
  Buffer* buffer = buffers.find(index);
  if (buffer == nullptr) __builtin_unreachable();  // a freed buffer exists
  return buffer->next_free;
}

}  // namespace

void* take_scratch() {
  uint32_t index = free_buffers.pop(next_of);
  if (index == 0) index = next_index.fetch_add(1, std::memory_order_relaxed);
  Buffer* buffer = buffers.at(index);
  if (buffer == nullptr) return nullptr;
  buffer->index = index;
  return buffer->memory;
}

void give_scratch(void* memory) {
  auto* buffer = reinterpret_cast<Buffer*>(static_cast<char*>(memory) - offsetof(Buffer, memory));
  free_buffers.push(buffer->index, next_of);
}

}  // namespace millrace::hook
