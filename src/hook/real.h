// Real: the function that a hook replaces.
//
// Looked up on first use, not at start: a program uses few of the hooked calls, and looking up all
// of them would take longer than a short process of a shell script runs.
#pragma once

#include <dlfcn.h>
#include <errno.h>

#include <atomic>
#include <cstddef>
#include <string_view>
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

// The name of a hook. The compiler has it only in the signature of a function that is made for it.
template <auto kHook>
consteval auto hook_name() {
  constexpr std::string_view kSignature = __PRETTY_FUNCTION__;  // "... kHook = dup]"
  struct Name {
    char text[64] = {};
  } name;
  const size_t begin = kSignature.find_last_of(" &") + 1;
  for (size_t i = begin; kSignature[i] != ']'; ++i) name.text[i - begin] = kSignature[i];
  return name;
}
template <auto kHook>
inline constexpr auto kHookName = hook_name<kHook>();

// The real function of a hook that is declared in a header: real_call<dup>(fd).
template <auto kHook>
inline constinit Real<std::remove_pointer_t<decltype(kHook)>> real_call{kHookName<kHook>.text};

}  // namespace millrace::hook
