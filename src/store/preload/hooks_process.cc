// Starting programs. They get the library and its settings even if their environment was cleared,
// and may be files of the store.
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hook/program_memory.h"
#include "hook/syscall.h"
#include "store/preload/exec_environment.h"
#include "store/preload/fast.h"
#include "store/preload/hooks.h"

namespace millrace::store {
namespace {

// Calls use(environment), which starts a program, with a completed environment on the stack: a
// vfork child shares its parent's other memory.
template <typename Use>
auto with_environment(char* const* environment, Use use) {
  make_all_real(Which::kInherited);
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

// The arguments of execl and its variants, as an array with a null at the end.
void collect(const char* first, va_list* arguments, char** out) {
  for (const char* at = first; at != nullptr; at = va_arg(*arguments, const char*)) {
    *out++ = const_cast<char*>(at);
  }
  *out = nullptr;
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

int execl(const char* path, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  size_t count = 0;
  for (const char* at = argument; at != nullptr; at = va_arg(arguments, const char*)) ++count;
  va_end(arguments);
  auto** array = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*)));
  va_start(arguments, argument);
  collect(argument, &arguments, array);
  va_end(arguments);
  return execve(path, array, environ);
}

int execlp(const char* file, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  size_t count = 0;
  for (const char* at = argument; at != nullptr; at = va_arg(arguments, const char*)) ++count;
  va_end(arguments);
  auto** array = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*)));
  va_start(arguments, argument);
  collect(argument, &arguments, array);
  va_end(arguments);
  return execvpe(file, array, environ);
}

int execle(const char* path, const char* argument, ...) {
  va_list arguments;
  va_start(arguments, argument);
  size_t count = 0;
  for (const char* at = argument; at != nullptr; at = va_arg(arguments, const char*)) ++count;
  va_end(arguments);
  auto** array = static_cast<char**>(__builtin_alloca((count + 1) * sizeof(char*)));
  va_start(arguments, argument);
  collect(argument, &arguments, array);
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

// The child duplicates it without a hook.
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t* actions, int fd, int copy) {
  static constinit Real<decltype(posix_spawn_file_actions_adddup2)> real{
      "posix_spawn_file_actions_adddup2"};
  make_real(fd);
  return real(actions, fd, copy);
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

int fexecve(int fd, char* const arguments[], char* const environment[]) {
  static constinit Real<int(int, char* const*, char* const*)> real{"fexecve"};
  if (!active()) return real(fd, arguments, environment);
  return with_environment(environment, [&](char* const* completed) {
    return natively(fd, [&] { return real(fd, arguments, completed); });
  });
}

// A fork without the handlers of pthread_atfork.
pid_t _Fork() {
  static constinit Real<pid_t()> real{"_Fork"};
  if (!active()) return real();
  make_all_real(Which::kAll);
  const pid_t pid = real();
  if (pid == 0) client.pid.store(millrace::hook::sys_getpid(), std::memory_order_relaxed);
  return pid;
}

int system(const char* command) {
  static constinit Real<int(const char*)> real{"system"};
  make_all_real(Which::kInherited);
  return real(command);
}

FILE* popen(const char* command, const char* mode) {
  static constinit Real<FILE*(const char*, const char*)> real{"popen"};
  make_all_real(Which::kInherited);
  return real(command, mode);
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

// The child returns into the caller's frame and may change all of it before the parent continues.
// So nothing of ours may be on the stack across the system call: the return address is in a
// register.
#if defined(__x86_64__)
asm(R"(
  .text
  .globl vfork
  .type vfork, @function
vfork:
  .cfi_startproc
  endbr64
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call millrace_store_before_vfork
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rdi
  movl $58, %eax
  syscall
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  .cfi_offset %rip, -8
  testq %rax, %rax
  jz 1f
  js 2f
  pushq %rax
  .cfi_adjust_cfa_offset 8
  call millrace_store_after_vfork
  popq %rax
  .cfi_adjust_cfa_offset -8
1:
  ret
2:
  movq %rax, %rdi
  jmp millrace_store_failed_vfork
  .cfi_endproc
  .size vfork, .-vfork
  .globl __vfork
  .set __vfork, vfork
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl vfork
  .type vfork, %function
vfork:
  .cfi_startproc
  stp x29, x30, [sp, -16]!
  bl millrace_store_before_vfork
  ldp x29, x30, [sp], 16
  mov x0, #0x4111
  mov x1, #0
  mov x2, #0
  mov x3, #0
  mov x4, #0
  mov x8, #220
  svc #0
  cbz x0, 1f
  tbnz x0, #63, 2f
  stp x0, x30, [sp, -16]!
  bl millrace_store_after_vfork
  ldp x0, x30, [sp], 16
1:
  ret
2:
  b millrace_store_failed_vfork
  .cfi_endproc
  .size vfork, .-vfork
  .globl __vfork
  .set __vfork, vfork
)");
#endif
