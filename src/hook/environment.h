// Environment: the variables that a program started by exec needs, so that our library follows it.
//
// Programs such as sudo, job managers and test runners clear the environment before exec. This
// class saves what the library needs at its own start, and restores what is missing. Users switch
// this off for a child with a variable (NAME=0).
//
// fill() allocates nothing: the caller provides memory on its stack, because a vfork child shares
// all other memory with its parent.
#pragma once

#include <unistd.h>

#include <cstddef>

#include "hook/program_memory.h"

namespace millrace::hook {

class Environment {
 public:
  // Saves `library` (the path for LD_PRELOAD), the name of the variable that switches it off, and
  // the variables of `environment` whose names begin with `prefix`. Copies all strings.
  void remember(const char* library, const char* off_name, const char* prefix,
                char* const* environment);

  // The same with the path of the library that this code is in, and the environment as it is now.
  // False if the path cannot be found.
  bool remember_own_library(const char* off_name, const char* prefix);

  // Also saves NAME=value.
  void add(const char* name, const char* value);

  // How much memory fill() needs for this environment. 0: nothing is missing, or the user has
  // switched us off.
  size_t missing_bytes(char* const* environment) const;

  // Writes the environment, with what was missing, into `memory`. Existing strings are not copied.
  char** fill(char* const* environment, void* memory) const;

 private:
  static constexpr size_t kEntriesMax = 32;

  const char* keep(const char* name, size_t name_size, const char* value);

  const char* library_ = nullptr;
  const char* off_name_ = nullptr;
  const char* entries_[kEntriesMax] = {};
  size_t entry_count_ = 0;
  char* text_ = nullptr;
  size_t text_left_ = 0;
};

// Calls use(environment), which starts a program, with a completed environment on the stack: a
// vfork child shares its parent's other memory.
template <typename Use>
auto with_environment(const Environment& kept, char* const* environment, Use use) {
  if (environment != environ && !can_read_strings(environment)) return use(environment);
  const size_t missing = kept.missing_bytes(environment);
  if (missing == 0) return use(environment);
  void* memory = __builtin_alloca(missing);
  return use(static_cast<char* const*>(kept.fill(environment, memory)));
}

// The value of a variable in an environment, or null.
const char* find_variable(char* const* environment, const char* name, size_t name_size);

}  // namespace millrace::hook
