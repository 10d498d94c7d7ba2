// Real: the function that a hook replaces.
//
// Looked up on first use, not at start: a program uses few of the hooked calls, and looking up all
// of them would take longer than a short process of a shell script runs.
#pragma once

#include <dlfcn.h>
#include <errno.h>

#include <atomic>
#include <cstddef>
#include <type_traits>

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

// A name as a template argument.
template <size_t kSize>
struct RealName {
  consteval RealName(const char (&name)[kSize]) {
    for (size_t i = 0; i < kSize; ++i) text[i] = name[i];
  }
  char text[kSize];
};

// The real function of a hook that is declared in a header: real_call<"dup", dup>(fd).
template <RealName kName, auto kHook>
inline constinit Real<std::remove_pointer_t<decltype(kHook)>> real_call{kName.text};

}  // namespace millrace::hook
