// Foreign: the real function of a library that this one knows nothing of: MPI, HDF5, liburing.
//
//   extern "C" int H5Dclose(Id dataset) {
//     static constinit Foreign<decltype(H5Dclose)> real{"H5Dclose"};
//     auto* function = real.get(__builtin_return_address(0));
//
// Such a library may be loaded with RTLD_LOCAL (Python modules are), where dlsym(RTLD_NEXT) does
// not reach it, and there may be two of one name in a process. So the function is looked for as the
// dynamic linker would have for the caller: among what every module sees, then among what the
// caller's own module depends on. docs/design/foreign-libraries.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace::trace {

// Modules that call hooked functions are numbered; what is found for one is kept by its number.
inline constexpr size_t kCallerModules = 32;

class ForeignSymbol {
 public:
  consteval explicit ForeignSymbol(const char* name) : name_(name) {}

  // What the code at `caller` would call, were we not there. Null where there is none: the program
  // has asked for a weak symbol, or by dlsym, and found ours alone.
  void* find(const void* caller);

 private:
  const char* name_;
  std::atomic<void*> found_[kCallerModules] = {};
};

template <typename Function>
class Foreign {
 public:
  consteval explicit Foreign(const char* name) : symbol_(name) {}

  Function* get(const void* caller) { return reinterpret_cast<Function*>(symbol_.find(caller)); }

 private:
  ForeignSymbol symbol_;
};

// A function or variable that we do not hook, of the library that the code at `caller` uses. Null
// where there is none. Searches anew each time.
void* find_unhooked(const char* name, const void* caller);

}  // namespace millrace::trace
