// Scratch: a buffer for a moment, for what is too large for the stack.
//
// A hook may run in a signal handler on an alternate stack of 8 KiB, half of which the kernel has
// taken for its own frame: a path does not fit there. Buffers come from a list that all threads
// share, so a handler that interrupts a user of one simply takes another. Lock-free. They are
// never given back to the kernel. A forked child inherits the list; a buffer that another thread of
// its parent had at that moment is lost to it.
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

// A text as long as a path may be.
struct ScratchText {
  char text[4096];
};

}  // namespace millrace::hook
