// Foreign: the real function of a library that is not linked here: MPI, HDF5, liburing.
//
//   extern "C" int H5Dclose(Id dataset) {
//     static constinit Foreign<decltype(H5Dclose)> real{"H5Dclose"};
//     auto* function = real.get(__builtin_return_address(0));
//
// Such a library may be loaded with RTLD_LOCAL, as Python modules are; dlsym(RTLD_NEXT) does not
// find it then. Also, a process may contain two libraries of one name. So the function is searched
// for as the dynamic linker would for the caller: first in the global scope, then in the
// dependencies of the caller's own module. docs/design/foreign-libraries.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace::trace {

// Modules that call hooked functions are numbered. Results are cached by that number.
inline constexpr size_t kCallerModules = 32;

class ForeignSymbol {
 public:
  consteval explicit ForeignSymbol(const char* name) : name_(name) {}

  // The function that the code at `caller` would call without us. Null if there is none: the
  // program looked up a weak symbol, or used dlsym, and found only ours.
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

// A function or variable that we do not hook, from the library that the code at `caller` uses. Null
// if there is none. Not cached.
void* find_unhooked(const char* name, const void* caller);

}  // namespace millrace::trace
