// Starting and ending programs. Started programs are recorded too: if their environment lacks the
// library or its settings, these are restored.
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hook/environment.h"
#include "hook/program_memory.h"
#include "hook/scratch.h"
#include "hook/syscall.h"
#include "hook/vfork.h"
#include "trace/preload/hooks/hooks.h"
#include "trace/preload/mappings.h"
#include "wire/store_state.h"

namespace millrace::trace {
namespace {

template <typename Use>
auto with_environment(char* const* environment, Use use) {
  return hook::with_environment(kept_environment, environment, use);
}

// If exec returns, it has failed.
template <typename Body>
int executing(NameId program, Body body) {
  if (!recording(Level::kPosix)) return body();
  if (!writer.in_vfork) record_live_mappings();
  Announced exec({.call = Call::kExec, .file = program, .detail = hook::sys_getpid()});
  const int result = body();
  const int error = errno;
  exec.take_back(result, error);
  errno = error;
  return result;
}

// A program as named in a shell: with a slash it is a path, without one it is searched for.
NameId program_name(const char* file) {
  const hook::Scratch<hook::ScratchText> copy;
  if (!copy) return kNoName;
  const long size = hook::copy_text(file, copy->text, sizeof(copy->text) - 1);
  if (size < 0) return kNoName;
  copy->text[size] = '\0';
  return strchr(copy->text, '/') != nullptr ? intern_path(copy->text) : intern(copy->text);
}

// The arguments of execl and its variants, as an array. The caller provides the memory.
size_t count_arguments(va_list arguments) {
  size_t count = 1;
  while (va_arg(arguments, const char*) != nullptr) ++count;
  return count;
}

// Takes a pointer: if va_list is a struct, a copy would not advance the caller's list, and execle
// finds its environment after the arguments.
void collect_arguments(const char* first, va_list* arguments, size_t count, char** out) {
  out[0] = const_cast<char*>(first);
  for (size_t i = 1; i < count; ++i) out[i] = va_arg(*arguments, char*);
  out[count] = nullptr;
}

template <typename Function>
int spawning(Function real, pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
             const posix_spawnattr_t* attributes, char* const arguments[],
             char* const environment[]) {
  if (!tracking()) {
    return real(pid, file, actions, attributes, arguments, environment);
  }
  recorder.descriptors.shared_with_child();
  pid_t child = 0;
  const uint64_t begin = now();
  const int error = with_environment(environment, [&](char* const* completed) {
    return real(&child, file, actions, attributes, arguments, completed);
  });
  if (error == 0 && pid != nullptr) *pid = child;
  if (!recording(Level::kPosix)) return error;
  record({.call = Call::kPosixSpawn,
          .file = program_name(file),
          .detail = static_cast<uint32_t>(child)},
         {begin, now(), error == 0 ? 0 : -1, error});
  return error;
}

}  // namespace

namespace {

constinit Real<void(int)> real_exit{"_exit"};

struct VforkStart {
  uint64_t ticks;
};
thread_local constinit VforkStart vfork_start{};

// The store's library comes after ours and does not see a vfork that we make, so we call it.
using StoreFunction = void();
thread_local constinit StoreFunction* store_after_vfork = nullptr;

void tell_store_before_vfork() {
  constexpr size_t kNameSize = sizeof(wire::kStoreVariable) - 1;
  if (hook::find_variable(environ, wire::kStoreVariable, kNameSize) == nullptr) return;
  void* before = dlsym(RTLD_NEXT, wire::kStoreBeforeVfork);
  void* after = dlsym(RTLD_NEXT, wire::kStoreAfterVfork);
  if (before == nullptr || after == nullptr) return;
  store_after_vfork = reinterpret_cast<StoreFunction*>(after);
  reinterpret_cast<StoreFunction*>(before)();
}

void tell_store_after_vfork() {
  if (store_after_vfork == nullptr) return;
  store_after_vfork();
  store_after_vfork = nullptr;
}

}  // namespace

void find_exit_call() { real_exit.get(); }

}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

pid_t fork() {
  static constinit Real<pid_t()> real{"fork"};
  if (!tracking()) return real();
  const uint64_t begin = now();
  const pid_t child = real();
  if (child == 0 || !recording(Level::kPosix)) return child;
  record({.call = Call::kFork}, {begin, now(), child, child < 0 ? errno : 0});
  return child;
}

pid_t _Fork() {
  static constinit Real<pid_t()> real{"_Fork"};
  if (!tracking()) return real();
  recorder.descriptors.shared_with_child();
  const uint64_t begin = now();
  const pid_t child = real();
  if (child == 0 || !recording(Level::kPosix)) return child;
  record({.call = Call::kFork}, {begin, now(), child, child < 0 ? errno : 0});
  return child;
}

// The parts of vfork that need not be in assembly. vfork itself must be: it returns twice from one
// frame.

void millrace_before_vfork() {
  tell_store_before_vfork();
  if (!tracking()) return;
  recorder.descriptors.shared_with_child();
  vfork_start.ticks = now();
  enter_vfork();
}

void millrace_after_vfork(long child) {
  tell_store_after_vfork();
  if (!writer.in_vfork) return;
  leave_vfork();
  if (!recording(Level::kPosix)) return;
  record({.call = Call::kVfork}, {vfork_start.ticks, now(), child, 0});
}

long millrace_failed_vfork(long error) {
  tell_store_after_vfork();
  if (writer.in_vfork) leave_vfork();
  errno = static_cast<int>(-error);
  return -1;
}

int execve(const char* path, char* const arguments[], char* const environment[]) {
  static constinit Real<int(const char*, char* const*, char* const*)> real{"execve"};
  if (!tracking()) return real(path, arguments, environment);
  return executing(intern_unread_path_at(AT_FDCWD, path), [&] {
    return with_environment(
        environment, [&](char* const* completed) { return real(path, arguments, completed); });
  });
}

int execv(const char* path, char* const arguments[]) { return execve(path, arguments, environ); }

int execvpe(const char* file, char* const arguments[], char* const environment[]) {
  static constinit Real<int(const char*, char* const*, char* const*)> real{"execvpe"};
  if (!tracking()) return real(file, arguments, environment);
  return executing(program_name(file), [&] {
    return with_environment(
        environment, [&](char* const* completed) { return real(file, arguments, completed); });
  });
}

int execvp(const char* file, char* const arguments[]) { return execvpe(file, arguments, environ); }

int execl(const char* path, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  const size_t count = argument == nullptr ? 0 : count_arguments(arguments);
  va_end(arguments);
  auto** array = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*)));
  va_start(arguments, argument);
  collect_arguments(argument, &arguments, count, array);
  va_end(arguments);
  return execve(path, array, environ);
}

int execlp(const char* file, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  const size_t count = argument == nullptr ? 0 : count_arguments(arguments);
  va_end(arguments);
  auto** array = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*)));
  va_start(arguments, argument);
  collect_arguments(argument, &arguments, count, array);
  va_end(arguments);
  return execvpe(file, array, environ);
}

int execle(const char* path, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  const size_t count = argument == nullptr ? 0 : count_arguments(arguments);
  va_end(arguments);
  auto** array = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*)));
  va_start(arguments, argument);
  collect_arguments(argument, &arguments, count, array);
  // The environment follows the null that ends the arguments.
  if (argument != nullptr) static_cast<void>(va_arg(arguments, char*));
  char* const* environment = va_arg(arguments, char* const*);
  va_end(arguments);
  return execve(path, array, environment);
}

int fexecve(int fd, char* const arguments[], char* const environment[]) {
  static constinit Real<int(int, char* const*, char* const*)> real{"fexecve"};
  if (!tracking()) return real(fd, arguments, environment);
  return executing(file_of(describe(fd)), [&] {
    return with_environment(environment,
                            [&](char* const* completed) { return real(fd, arguments, completed); });
  });
}

int execveat(int directory, const char* path, char* const arguments[], char* const environment[],
             int flags) {
  static constinit Real<int(int, const char*, char* const*, char* const*, int)> real{"execveat"};
  if (!tracking()) return real(directory, path, arguments, environment, flags);
  return executing(intern_unread_path_at(directory, path), [&] {
    return with_environment(environment, [&](char* const* completed) {
      return real(directory, path, arguments, completed, flags);
    });
  });
}

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const arguments[],
                char* const environment[]) {
  static constinit Real<decltype(posix_spawn)> real{"posix_spawn"};
  return spawning(real.get(), pid, path, actions, attributes, arguments, environment);
}

int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const arguments[],
                 char* const environment[]) {
  static constinit Real<decltype(posix_spawnp)> real{"posix_spawnp"};
  return spawning(real.get(), pid, file, actions, attributes, arguments, environment);
}

int system(const char* command) {
  static constinit Real<int(const char*)> real{"system"};
  if (!tracking()) return real(command);
  recorder.descriptors.shared_with_child();
  if (!recording(Level::kPosix)) return real(command);
  return traced({.call = Call::kSystem, .file = intern_unread_text(command)},
                [&] { return real(command); });
}

void _exit(int code) {
  if (tracking() || has_stopped()) end_recording(code);
  real_exit(code);
  __builtin_unreachable();
}

void quick_exit(int code) {
  static constinit Real<void(int)> real{"quick_exit"};
  if (tracking() || has_stopped()) end_recording(code);
  real(code);
  __builtin_unreachable();
}

}  // extern "C"

asm("define_vfork millrace_before_vfork, millrace_after_vfork, millrace_failed_vfork");

// Other names of the same calls: for 64-bit files, and internal to the C library. Defined in
// assembly, because headers declare some of them with types of their own, of the same layout.
asm(R"(
  .globl __fork
  .set __fork, fork
  .globl _Exit
  .set _Exit, _exit
)");
