// Starting programs. They get the library and its settings even if their environment was cleared,
// and may be files of the store.
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "hook/program_memory.h"
#include "hook/syscall.h"
#include "store/preload/exec_environment.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

// Calls use(environment) with a completed environment on the stack: a vfork child shares its
// parent's other memory.
template <typename Use>
auto with_environment(char* const* environment, Use use) {
  if (environment != environ && !hook::can_read_strings(environment)) return use(environment);
  const size_t missing = missing_environment_bytes(environment);
  if (missing == 0) return use(environment);
  void* memory = __builtin_alloca(missing);
  return use(static_cast<char* const*>(complete_environment(environment, memory)));
}

// run(program) for a program of the store or any other. It must be a path: without a slash, it is
// searched for.
template <typename Run>
int running(const char* program, Run run) {
  if (is_bad(program) || strchr(program, '/') == nullptr) return run(program);
  return on_path(
      AT_FDCWD, program, Last::kFollow, [&](uint32_t entry) { return with_real_path(entry, run); },
      [&](int, const char* other) { return run(other); });
}

// The same for calls that return an errno value.
template <typename Run>
int spawning(const char* program, Run run) {
  const int saved_errno = errno;
  const int result = running(program, [&](const char* other) {
    const int error = run(other);
    return error == 0 ? 0 : failure<int>(error);
  });
  const int error = result == 0 ? 0 : errno;
  errno = saved_errno;
  return error;
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int execve(const char* path, char* const arguments[], char* const environment[]) {
  static constinit Real<int(const char*, char* const*, char* const*)> real{"execve"};
  if (!active()) return real(path, arguments, environment);
  return with_environment(environment, [&](char* const* completed) {
    return running(path, [&](const char* other) { return real(other, arguments, completed); });
  });
}

int execv(const char* path, char* const arguments[]) { return execve(path, arguments, environ); }

int execvpe(const char* file, char* const arguments[], char* const environment[]) {
  static constinit Real<int(const char*, char* const*, char* const*)> real{"execvpe"};
  if (!active()) return real(file, arguments, environment);
  return with_environment(environment, [&](char* const* completed) {
    return running(file, [&](const char* other) { return real(other, arguments, completed); });
  });
}

int execvp(const char* file, char* const arguments[]) { return execvpe(file, arguments, environ); }

int execle(const char* path, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  size_t count = 0;
  for (const char* at = argument; at != nullptr; at = va_arg(arguments, const char*)) ++count;
  va_end(arguments);
  auto** array = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*)));
  va_start(arguments, argument);
  size_t filled = 0;
  for (const char* at = argument; at != nullptr; at = va_arg(arguments, const char*)) {
    array[filled++] = const_cast<char*>(at);
  }
  array[filled] = nullptr;
  char* const* environment = va_arg(arguments, char* const*);
  va_end(arguments);
  return execve(path, array, environment);
}

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const arguments[],
                char* const environment[]) {
  static constinit Real<decltype(posix_spawn)> real{"posix_spawn"};
  if (!active()) return real(pid, path, actions, attributes, arguments, environment);
  return with_environment(environment, [&](char* const* completed) {
    return spawning(path, [&](const char* other) {
      return real(pid, other, actions, attributes, arguments, completed);
    });
  });
}

// The child opens it without a hook, so it must exist before.
int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t* actions, int fd, const char* path,
                                     int flags, mode_t mode) {
  static constinit Real<decltype(posix_spawn_file_actions_addopen)> real{
      "posix_spawn_file_actions_addopen"};
  if (!active()) return real(actions, fd, path, flags, mode);
  Lookup lookup;
  const Place place = lookup.find(AT_FDCWD, path, Last::kFollow);
  if (place.is_written) {
    if ((flags & O_CREAT) != 0) can_create(place);
    return real(actions, fd, place.path, flags, mode);
  }
  if (place.where != Where::kInside || (flags & O_ACCMODE) != O_RDONLY) {
    return real(actions, fd, path, flags, mode);
  }
  return spawning(path, [&](const char* other) {
    const int probe = millrace::hook::sys_open(other, O_PATH);
    if (probe < 0) return -probe;
    millrace::hook::sys_close(probe);
    return real(actions, fd, other, flags & ~O_CREAT, mode);
  });
}

int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const arguments[],
                 char* const environment[]) {
  static constinit Real<decltype(posix_spawnp)> real{"posix_spawnp"};
  if (!active()) return real(pid, file, actions, attributes, arguments, environment);
  return with_environment(environment, [&](char* const* completed) {
    return spawning(file, [&](const char* other) {
      return real(pid, other, actions, attributes, arguments, completed);
    });
  });
}

}  // extern "C"
