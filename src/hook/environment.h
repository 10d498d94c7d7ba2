// Environment: what a program started by exec must find, so that our library is in it too.
//
// Programs clear the environment before exec (sudo, job managers, test runners). What the library
// needs is kept from its own start and put back where it is missing. A user who does not want a
// child to be followed says so by a variable (NAME=0).
//
// Nothing is allocated: the caller gives the memory, on its stack, because a vfork child shares its
// parent's everything else.
#pragma once

#include <cstddef>

namespace millrace::hook {

class Environment {
 public:
  // Keeps `library` (the path that belongs into LD_PRELOAD) and the name of the variable that
  // switches it off, and the variables of `environ` whose names begin with `prefix`, as they are
  // now. The strings are copied into memory of our own.
  void remember(const char* library, const char* off_name, const char* prefix,
                char* const* environment);

  // Keeps NAME=value as well.
  void add(const char* name, const char* value);

  // How much memory fill() needs for this environment; 0: it has everything already, or the user
  // has switched us off.
  size_t missing_bytes(char* const* environment) const;

  // The environment with what was missing, written into `memory`. The strings that were there stay
  // where they are.
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

// The value of a variable in an environment, or null.
const char* find_variable(char* const* environment, const char* name, size_t name_size);

}  // namespace millrace::hook
