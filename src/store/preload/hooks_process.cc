// Starting programs. They get the library and its settings even if their environment was cleared,
// and may be files of the store.
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hook/environment.h"
#include "hook/program_memory.h"
#include "hook/syscall.h"
#include "hook/text.h"
#include "hook/vfork.h"
#include "store/preload/fast.h"
#include "store/preload/hooks.h"
#include "store/preload/program_file.h"

namespace millrace::store {
namespace {

template <typename Use>
auto with_environment(char* const* environment, Use use) {
  make_all_real(Which::kInherited);
  return hook::with_environment(kept_environment, environment, use);
}

size_t count_of(char* const* arguments) {
  size_t count = 0;
  while (arguments[count] != nullptr) ++count;
  return count;
}

constexpr int kScriptsMax = 5;  // whose interpreters are scripts: as in the kernel

// run(path, arguments, directory) starts a program in a directory, or in the current one if that is
// null. It returns -1 with errno if it cannot.

// A program that does not see the store.
template <typename Run>
int starting_blind(const char* real, char* const* arguments, const ProgramFile& file, Run run) {
  report_blind(real, file, arguments);
  char* directory = nullptr;
  {
    const hook::Scratch<RealPath> found;
    if (found && find_blind_directory(*found)) {
      const size_t size = strlen(found->text) + 1;
      directory = static_cast<char*>(memcpy(__builtin_alloca(size), found->text, size));
    }
  }
  return run(real, arguments, directory);
}

// The dynamic loader, which opens its first argument without us.
template <typename Run>
int starting_loader(const char* real, char* const* arguments, Run run) {
  const size_t count = count_of(arguments);
  size_t index = 0;
  uint32_t entry = kNoEntry;
  for (size_t i = 1; i < count && entry == kNoEntry; ++i) {
    if (arguments[i][0] == '-') continue;
    Lookup lookup;
    const Place place = lookup.find(AT_FDCWD, arguments[i], Last::kFollow);
    if (place.where == Where::kInside) index = i, entry = place.entry;
  }
  if (entry == kNoEntry) return run(real, arguments, nullptr);
  auto** changed = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*)));
  memcpy(changed, arguments, (count + 1) * sizeof(char*));
  return with_real_path(entry, [&](const char* program) {
    const int probe = hook::sys_open(program, O_PATH);
    if (probe < 0) return failure<int>(-probe);
    hook::sys_close(probe);
    changed[index] = const_cast<char*>(program);
    return run(real, changed, nullptr);
  });
}

// Reads a program of the store. -1 with errno.
int read_entry(uint32_t entry, ProgramFile& file) {
  if (is_directory(entry)) return failure<int>(EACCES);
  return with_real_path(entry, [&](const char* real) {
    const int error = file.read(real);
    return error == 0 || error == EACCES ? 0 : failure<int>(error);
  });
}

template <typename Run>
int starting_script(const char* path, char* const* arguments, ProgramFile& file, const Run& run,
                    int depth);

// Starts a program of the store or any other. Programs see the name of a script that they know, not
// the real one: so its interpreter is started here. A vfork child shares our memory, and gives no
// scratch back after exec: none is held while a program is started.
template <typename Run>
int starting(const char* path, char* const* arguments, const Run& run, int depth = 0) {
  if (is_bad(path) || is_bad(arguments) || !hook::can_read_strings(arguments)) {
    return run(path, arguments, nullptr);
  }
  if (depth > kScriptsMax) return failure<int>(ELOOP);
  ProgramFile file;
  const char* real = path;
  uint32_t entry = kNoEntry;
  {
    Lookup lookup;
    Place place = lookup.find(AT_FDCWD, path, Last::kFollow);
    if (place.where == Where::kOutside && file.read(path) == ENOENT) {
      place = lookup.find_linked(AT_FDCWD, path, Last::kFollow);
      if (place.where == Where::kOutside) return failure<int>(ENOENT);
    }
    if (place.where == Where::kFailed) return failure<int>(place.error);
    if (place.where == Where::kInside) entry = place.entry;
    if (place.where == Where::kElsewhere) {
      const size_t size = strlen(place.path) + 1;
      real = static_cast<char*>(memcpy(__builtin_alloca(size), place.path, size));
      file.read(real);
    }
  }
  if (entry != kNoEntry && read_entry(entry, file) != 0) return -1;
  if (file.kind == ProgramKind::kScript) {
    // Another script is left to the kernel, which does not find an interpreter of the store.
    if (entry == kNoEntry && real == path) {
      const int result = run(path, arguments, nullptr);
      if (result == 0 || errno != ENOENT) return result;
    }
    if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) != 0) return failure<int>(EACCES);
    return starting_script(path, arguments, file, run, depth);
  }
  const auto run_real = [&](const char* other) {
    if (file.kind == ProgramKind::kBlind) return starting_blind(other, arguments, file, run);
    if (file.kind == ProgramKind::kLoader) return starting_loader(other, arguments, run);
    return run(other, arguments, nullptr);
  };
  return entry == kNoEntry ? run_real(real) : with_real_path(entry, run_real);
}

// INTERPRETER [ARGUMENT] SCRIPT ARGUMENTS...
template <typename Run>
int starting_script(const char* path, char* const* arguments, ProgramFile& file, const Run& run,
                    int depth) {
  const size_t count = count_of(arguments);
  auto** changed = static_cast<char**>(__builtin_alloca((count + 4) * sizeof(char*)));
  char** at = changed;
  *at++ = file.text;
  if (file.argument != nullptr) *at++ = const_cast<char*>(file.argument);
  *at++ = const_cast<char*>(path);
  for (size_t i = 1; i < count; ++i) *at++ = arguments[i];
  *at = nullptr;
  return starting(file.text, static_cast<char* const*>(changed), run, depth + 1);
}

// try_path(path) for each place where a program may be, until it does not fail. Like the C library,
// which searches without hooks.
template <typename Try>
int searching(const char* file, Try try_path) {
  if (is_bad(file) || strchr(file, '/') != nullptr) return try_path(file);
  const size_t size = strlen(file);
  if (size == 0) return failure<int>(ENOENT);
  if (size > NAME_MAX) return failure<int>(ENAMETOOLONG);
  const char* list = hook::find_variable(environ, "PATH", 4);
  if (list == nullptr) list = "/bin:/usr/bin";
  auto* path = static_cast<char*>(__builtin_alloca(strlen(list) + size + 2));
  bool is_denied = false;
  for (const char* begin = list;; ++begin) {
    const char* end = strchrnul(begin, ':');
    const auto directory_size = static_cast<size_t>(end - begin);
    memcpy(path, begin, directory_size);
    path[directory_size] = '/';
    memcpy(path + directory_size + (directory_size > 0 ? 1 : 0), file, size + 1);
    if (try_path(path) == 0) return 0;
    if (errno == EACCES) {
      is_denied = true;
    } else if (errno != ENOENT && errno != ESTALE && errno != ENOTDIR && errno != ENODEV &&
               errno != ETIMEDOUT) {
      return -1;
    }
    begin = end;
    if (*end == '\0') return failure<int>(is_denied ? EACCES : errno);
  }
}

// exec with a completed environment.
int executing(const char* path, char* const* arguments, char* const* environment) {
  return starting(path, arguments,
                  [&](const char* real, char* const* given, const char* directory) {
                    if (directory == nullptr) return real_call<execve>(real, given, environment);
                    const int before = hook::sys_open(".", O_PATH | O_DIRECTORY);
                    hook::own_call(SYS_chdir, hook::word(directory));
                    real_call<execve>(real, given, environment);
                    hook::own_call(SYS_fchdir, before);
                    hook::sys_close(before);
                    return -1;
                  });
}

// The same for calls that return an errno value.
template <typename Body>
int returning_error(Body body) {
  const int saved_errno = errno;
  const int result = body();
  const int error = result == 0 ? 0 : errno;
  errno = saved_errno;
  return error;
}

// body(path) returns an errno value, and does not open the path: so it must exist before.
template <typename Body>
int with_existing_path(uint32_t entry, Body body) {
  return returning_error([&] {
    return with_real_path(entry, [&](const char* path) {
      const int probe = hook::sys_open(path, O_PATH);
      if (probe >= 0) hook::sys_close(probe);
      const int error = probe < 0 ? -probe : body(path);
      return error == 0 ? 0 : failure<int>(error);
    });
  });
}

// A child without a hook finds nothing below the root. ENOTDIR is another error than that.
const char* name_for_child(const Place& place, const char* path) {
  return place.where == Where::kFailed && place.error == ENOTDIR ? "/dev/null/missing" : path;
}

constexpr char kEnv[] = "/usr/bin/env";

struct Spawn {
  pid_t* pid;
  const posix_spawn_file_actions_t* actions;
  const posix_spawnattr_t* attributes;
  char* const* arguments;
  char* const* environment;
};

// Whether env(1) starts a program as it would be started: env searches names without a slash, and
// gives the program its path as its name.
bool can_start_by_env(const char* path, const char* name) {
  const char* const slash = strrchr(path, '/');
  if (slash == nullptr || strchr(path, '=') != nullptr || name == nullptr) return false;
  const char* const last = strrchr(name, '/');
  return strcmp(slash + 1, last == nullptr ? name : last + 1) == 0 &&
         hook::sys_access(kEnv, X_OK) == 0;
}

int spawning(const char* path, const Spawn& spawn) {
  return starting(
      path, spawn.arguments, [&](const char* real, char* const* given, const char* directory) {
        posix_spawn_file_actions_t own;
        const posix_spawn_file_actions_t* actions = spawn.actions;
        // Those of the program cannot be copied, and may have a directory of their own. So they
        // come first, and then our execve in a program that sees the store.
        if (directory != nullptr && actions != nullptr && can_start_by_env(real, given[0])) {
          const size_t count = count_of(given);
          auto** changed = static_cast<char**>(__builtin_alloca((count + 2) * sizeof(char*)));
          changed[0] = const_cast<char*>(kEnv);
          changed[1] = const_cast<char*>(real);
          memcpy(changed + 2, given + 1, count * sizeof(char*));
          given = changed;
          real = kEnv;
        }
        const bool moves = directory != nullptr && actions == nullptr;
        if (moves && posix_spawn_file_actions_init(&own) == 0) {
          posix_spawn_file_actions_addchdir_np(&own, directory);
          actions = &own;
        }
        const int error = real_call<posix_spawn>(spawn.pid, real, actions, spawn.attributes, given,
                                                 spawn.environment);
        if (actions == &own) posix_spawn_file_actions_destroy(&own);
        return error == 0 ? 0 : failure<int>(error);
      });
}

// A file that the search of posix_spawnp takes. A try would do all of the child's actions.
int spawning_if_executable(const char* path, const Spawn& spawn) {
  struct stat status;
  if (is_bad(path)) return spawning(path, spawn);
  if (stat(path, &status) != 0) return -1;
  if (S_ISDIR(status.st_mode)) return failure<int>(EACCES);
  if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) != 0) return -1;
  return spawning(path, spawn);
}

int executing_by_shell(const char* path, char* const* arguments, char* const* environment) {
  ProgramFile shell = {};
  Text(shell.text).add("/bin/sh");
  return starting_script(
      path, arguments, shell,
      [&](const char* real, char* const* given, const char*) {
        return real_call<execve>(real, given, environment);
      },
      0);
}

// use(array) with the arguments of execl and its variants. What follows them is next in the list.
template <typename Use>
int with_array(const char* first, va_list* arguments, Use use) {
  va_list counted;
  va_copy(counted, *arguments);
  size_t count = 0;
  for (const char* at = first; at != nullptr; at = va_arg(counted, const char*)) ++count;
  va_end(counted);
  auto** array = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*)));
  char** out = array;
  for (const char* at = first; at != nullptr; at = va_arg(*arguments, const char*)) {
    *out++ = const_cast<char*>(at);
  }
  *out = nullptr;
  return use(array);
}

}  // namespace
}  // namespace millrace::store

using namespace millrace::store;

extern "C" {

int execve(const char* path, char* const arguments[], char* const environment[]) {
  if (!active()) return real_call<execve>(path, arguments, environment);
  return with_environment(
      environment, [&](char* const* completed) { return executing(path, arguments, completed); });
}

int execv(const char* path, char* const arguments[]) { return execve(path, arguments, environ); }

int execvpe(const char* file, char* const arguments[], char* const environment[]) {
  if (!active()) return real_call<execvpe>(file, arguments, environment);
  return with_environment(environment, [&](char* const* completed) {
    return searching(file, [&](const char* path) {
      executing(path, arguments, completed);
      // A file without a first line is a script of the shell.
      return errno == ENOEXEC ? executing_by_shell(path, arguments, completed) : -1;
    });
  });
}

int execvp(const char* file, char* const arguments[]) { return execvpe(file, arguments, environ); }

int execl(const char* path, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  const int result =
      with_array(argument, &arguments, [&](char** array) { return execve(path, array, environ); });
  va_end(arguments);
  return result;
}

int execlp(const char* file, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  const int result =
      with_array(argument, &arguments, [&](char** array) { return execvpe(file, array, environ); });
  va_end(arguments);
  return result;
}

int execle(const char* path, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  const int result = with_array(argument, &arguments, [&](char** array) {
    return execve(path, array, va_arg(arguments, char* const*));
  });
  va_end(arguments);
  return result;
}

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const arguments[],
                char* const environment[]) {
  if (!active())
    return real_call<posix_spawn>(pid, path, actions, attributes, arguments, environment);
  return with_environment(environment, [&](char* const* completed) {
    return returning_error(
        [&] { return spawning(path, {pid, actions, attributes, arguments, completed}); });
  });
}

// The child opens it without a hook.
int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t* actions, int fd, const char* path,
                                     int flags, mode_t mode) {
  if (!active()) return real_call<posix_spawn_file_actions_addopen>(actions, fd, path, flags, mode);
  Lookup lookup;
  const Place place = lookup.find(AT_FDCWD, path, Last::kFollow);
  if (place.is_created) {
    if ((flags & O_CREAT) != 0) make_upper_directories(place.entry);
    return real_call<posix_spawn_file_actions_addopen>(actions, fd, place.path, flags, mode);
  }
  if (place.where != Where::kInside || (flags & O_ACCMODE) != O_RDONLY) {
    return real_call<posix_spawn_file_actions_addopen>(actions, fd, name_for_child(place, path),
                                                       flags, mode);
  }
  return with_existing_path(place.entry, [&](const char* other) {
    return real_call<posix_spawn_file_actions_addopen>(actions, fd, other, flags & ~O_CREAT, mode);
  });
}

// The child duplicates it without a hook.
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t* actions, int fd, int copy) {
  make_real(fd);
  return real_call<posix_spawn_file_actions_adddup2>(actions, fd, copy);
}

int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const arguments[],
                 char* const environment[]) {
  if (!active())
    return real_call<posix_spawnp>(pid, file, actions, attributes, arguments, environment);
  return with_environment(environment, [&](char* const* completed) {
    return returning_error([&] {
      return searching(file, [&](const char* path) {
        return spawning_if_executable(path, {pid, actions, attributes, arguments, completed});
      });
    });
  });
}

// The child changes its directory without a hook.
int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t* actions, const char* path) {
  if (!active() || is_bad(path))
    return real_call<posix_spawn_file_actions_addchdir_np>(actions, path);
  Lookup lookup;
  const Place place = lookup.find(AT_FDCWD, path, Last::kFollow);
  if (place.where == Where::kElsewhere)
    return real_call<posix_spawn_file_actions_addchdir_np>(actions, place.path);
  if (place.where != Where::kInside)
    return real_call<posix_spawn_file_actions_addchdir_np>(actions, name_for_child(place, path));
  return with_existing_path(place.entry, [&](const char* other) {
    return real_call<posix_spawn_file_actions_addchdir_np>(actions, other);
  });
}

int fexecve(int fd, char* const arguments[], char* const environment[]) {
  if (!active()) return real_call<fexecve>(fd, arguments, environment);
  return with_environment(environment, [&](char* const* completed) {
    return natively(fd, [&] { return real_call<fexecve>(fd, arguments, completed); });
  });
}

int execveat(int directory, const char* path, char* const arguments[], char* const environment[],
             int flags) {
  if (!active() || is_bad(path))
    return real_call<execveat>(directory, path, arguments, environment, flags);
  if (flags == 0 && (*path == '/' || (directory == AT_FDCWD && *path != '\0'))) {
    return execve(path, arguments, environment);
  }
  return with_environment(environment, [&](char* const* completed) {
    if (*path == '\0') {
      return natively(directory, [&] {
        return real_call<execveat>(directory, path, arguments, completed, flags);
      });
    }
    return on_real_path(directory, path, last_of_at(flags), [&](int base, const char* other) {
      return real_call<execveat>(base, other, arguments, completed, flags);
    });
  });
}

// A fork without the handlers of pthread_atfork.
pid_t _Fork() {
  if (!active()) return real_call<_Fork>();
  make_all_real(Which::kAll);
  const pid_t pid = real_call<_Fork>();
  if (pid == 0) client.pid.store(millrace::hook::sys_getpid(), std::memory_order_relaxed);
  return pid;
}

int system(const char* command) {
  make_all_real(Which::kInherited);
  return real_call<system>(command);
}

FILE* popen(const char* command, const char* mode) {
  make_all_real(Which::kInherited);
  return real_call<popen>(command, mode);
}

// The parts of vfork that need not be in assembly. vfork itself must be: it returns twice from one
// frame.

void millrace_store_before_vfork() {
  make_all_real(Which::kAll);
  in_vfork_child = true;
}

void millrace_store_after_vfork() { in_vfork_child = false; }

long millrace_store_failed_vfork(long error) {
  in_vfork_child = false;
  errno = static_cast<int>(-error);
  return -1;
}

}  // extern "C"

asm("define_vfork millrace_store_before_vfork, millrace_store_after_vfork, millrace_store_failed_vfork");
