// Scratch: a temporary buffer for what is too large for the stack.
//
// A hook may run in a signal handler on an alternate stack of 8 KiB, half of which the kernel uses
// for its own frame; a path does not fit there. Buffers come from a list shared by all threads, so
// a handler that interrupts a user takes another one. Lock-free. Buffers are never unmapped. A
// forked child inherits the list, but loses the buffers that other threads of its parent were
// using.
//
//   const Scratch<PathBuffer> path;
//   if (!path) return kNoName;  // memory was refused
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>

namespace millrace::hook {

inline constexpr size_t kScratchBytes = 16 * 1024 - 64;

// Null if memory is refused.
void* take_scratch();
void give_scratch(void* memory);

template <typename Value>
class Scratch {
 public:
  Scratch() : value_(static_cast<Value*>(take_scratch())) {
    if (value_ != nullptr) new (value_) Value;
  }
  ~Scratch() {
    if (value_ != nullptr) give_scratch(value_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  explicit operator bool() const { return value_ != nullptr; }
  Value* operator->() const { return value_; }
  Value& operator*() const { return *value_; }

 private:
  static_assert(sizeof(Value) <= kScratchBytes && alignof(Value) <= 64);
  static_assert(std::is_trivially_destructible_v<Value>);
  Value* value_;
};

// Room for a path.
struct ScratchText {
  char text[4096];
};

}  // namespace millrace::hook
