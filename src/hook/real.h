// Real: the function that a hook replaces.
//
// Looked up on first use, not at start: a program uses few of the hooked calls, and looking up all
// of them would take longer than a short process of a shell script runs.
#pragma once

#include <dlfcn.h>
#include <errno.h>

#include <atomic>

namespace millrace::hook {

template <typename Function>
class Real {
 public:
  consteval explicit Real(const char* name) : name_(name) {}

  // The next definition after ours. Null if the C library has none.
  Function* get() {
    Function* function = function_.load(std::memory_order_relaxed);
    if (__builtin_expect(function == nullptr, 0)) {
      const int saved_errno = errno;
      function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
      errno = saved_errno;
      function_.store(function, std::memory_order_relaxed);
    }
    return function;
  }

  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    return get()(arguments...);
  }

 private:
  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

}  // namespace millrace::hook
