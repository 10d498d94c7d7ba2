// syscall(2) as a function. Calls through it are recorded like calls of the C library's function.
// Only `--all` sees programs that use the instruction itself.
//
// The exported `syscall` is a few instructions that look up the number and jump: system calls that
// return twice, or on another stack (clone), must not pass through a frame of ours.
#include "hook/syscall.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "trace/preload/hooks/hooks.h"
#include "trace/preload/uring.h"

namespace millrace::trace {
namespace {

struct Arguments {
  long a, b, c, d, e, f;
};

template <typename Pointer>
Pointer pointer(long word) {
  return reinterpret_cast<Pointer>(word);
}

// As in the C library: minus an errno value becomes -1 and errno.
long finish(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

long call_kernel(long number, const Arguments& x) {
  return finish(hook::system_call(number, x.a, x.b, x.c, x.d, x.e, x.f));
}

// Rings of other libraries: their I/O is not seen, but their existence is.
long on_ring(Call call, long number, const Arguments& x) {
  if (!recording(Level::kPosix)) return call_kernel(number, x);
  const long result =
      traced({.call = call, .file = intern("<io_uring>")}, [&] { return call_kernel(number, x); });
  if (call == Call::kIoUringSetup) note_ring(static_cast<int>(result));
  return result;
}

long data_call(long number, const Arguments& x) {
  const auto fd = static_cast<int>(x.a);
  const auto size = static_cast<size_t>(x.c);
  switch (number) {
    case SYS_read:
      return read(fd, pointer<void*>(x.b), size);
    case SYS_write:
      return write(fd, pointer<const void*>(x.b), size);
    case SYS_pread64:
      return pread(fd, pointer<void*>(x.b), size, x.d);
    case SYS_pwrite64:
      return pwrite(fd, pointer<const void*>(x.b), size, x.d);
    case SYS_readv:
      if (x.c < 0 || x.c > INT_MAX) return call_kernel(number, x);  // readv() takes an int
      return readv(fd, pointer<const iovec*>(x.b), static_cast<int>(x.c));
    case SYS_writev:
      if (x.c < 0 || x.c > INT_MAX) return call_kernel(number, x);
      return writev(fd, pointer<const iovec*>(x.b), static_cast<int>(x.c));
    case SYS_getdents64:
      return getdents64(fd, pointer<void*>(x.b), size);
    case SYS_lseek:
      return lseek(fd, x.b, static_cast<int>(x.c));
    case SYS_close:
      return close(fd);
    case SYS_fsync:
      return fsync(fd);
    case SYS_fdatasync:
      return fdatasync(fd);
    case SYS_ftruncate:
      return ftruncate(fd, x.b);
    case SYS_dup:
      return dup(fd);
    case SYS_dup3:
      return dup3(fd, static_cast<int>(x.b), static_cast<int>(x.c));
    case SYS_copy_file_range:
      return copy_file_range(fd, pointer<off_t*>(x.b), static_cast<int>(x.c), pointer<off_t*>(x.d),
                             static_cast<size_t>(x.e), static_cast<unsigned>(x.f));
    case SYS_sendfile:
      return sendfile(fd, static_cast<int>(x.b), pointer<off_t*>(x.c), static_cast<size_t>(x.d));
    default:
      return call_kernel(number, x);
  }
}

}  // namespace
}  // namespace millrace::trace

using namespace millrace::trace;

extern "C" {

// Bit n: number n is hooked.
constinit uint64_t millrace_hooked_calls[8] = {};
using SyscallFunction = long(long, ...);
constinit SyscallFunction* millrace_real_syscall = nullptr;

long millrace_set_errno(long result) {
  errno = static_cast<int>(-result);
  return -1;
}

long millrace_hooked_syscall(long number, long a, long b, long c, long d, long e, long f) {
  const Arguments x{a, b, c, d, e, f};
  switch (number) {
    case SYS_openat:
      return openat(static_cast<int>(a), pointer<const char*>(b), static_cast<int>(c),
                    static_cast<mode_t>(d));
    case SYS_unlinkat:
      return unlinkat(static_cast<int>(a), pointer<const char*>(b), static_cast<int>(c));
    case SYS_mkdirat:
      return mkdirat(static_cast<int>(a), pointer<const char*>(b), static_cast<mode_t>(c));
    case SYS_renameat2:
      return renameat2(static_cast<int>(a), pointer<const char*>(b), static_cast<int>(c),
                       pointer<const char*>(d), static_cast<unsigned>(e));
    case SYS_statx:
      return statx(static_cast<int>(a), pointer<const char*>(b), static_cast<int>(c),
                   static_cast<unsigned>(d), pointer<struct statx*>(e));
#if defined(SYS_open)
    case SYS_open:
      return open(pointer<const char*>(a), static_cast<int>(b), static_cast<mode_t>(c));
    case SYS_unlink:
      return unlink(pointer<const char*>(a));
#endif
    case SYS_prctl:
      return prctl(static_cast<int>(a), b, c, d, e);
    case SYS_seccomp:
      return seccomp_call(a, b, c);
    case SYS_io_uring_setup:
      return on_ring(Call::kIoUringSetup, number, x);
    case SYS_io_uring_enter:
      return on_ring(Call::kIoUringEnter, number, x);
    case SYS_io_uring_register:
      return on_ring(Call::kIoUringRegister, number, x);
    default:
      return data_call(number, x);
  }
}

}  // extern "C"

namespace {

[[gnu::constructor]] void choose_hooked_calls() {
  static constexpr int kNumbers[] = {
      SYS_read,
      SYS_write,
      SYS_pread64,
      SYS_pwrite64,
      SYS_readv,
      SYS_writev,
      SYS_getdents64,
      SYS_lseek,
      SYS_close,
      SYS_fsync,
      SYS_fdatasync,
      SYS_ftruncate,
      SYS_dup,
      SYS_dup3,
      SYS_openat,
      SYS_unlinkat,
      SYS_mkdirat,
      SYS_renameat2,
      SYS_statx,
      SYS_sendfile,
      SYS_copy_file_range,
      SYS_prctl,
      SYS_seccomp,
      SYS_io_uring_setup,
      SYS_io_uring_enter,
      SYS_io_uring_register,
#if defined(SYS_open)
      SYS_open,
      SYS_unlink,
#endif
  };
  for (const int number : kNumbers) millrace_hooked_calls[number / 64] |= 1ull << (number % 64);
  millrace_real_syscall = reinterpret_cast<SyscallFunction*>(dlsym(RTLD_NEXT, "syscall"));
}

}  // namespace

#if defined(__x86_64__)
asm(R"(
  .text
  .globl syscall
  .type syscall, @function
syscall:
  .cfi_startproc
  endbr64
  cmpq $512, %rdi
  jae 1f
  leaq millrace_hooked_calls(%rip), %rax
  btq %rdi, (%rax)
  jnc 1f
  # The hook's seventh argument, the sixth of the system call, is already on the stack.
  jmp millrace_hooked_syscall
1:
  movq millrace_real_syscall(%rip), %rax
  testq %rax, %rax
  jz 2f
  jmp *%rax
2:
  # Before our constructor has run: do what the C library would do.
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r8, %r10
  movq %r9, %r8
  movq 8(%rsp), %r9
  syscall
  cmpq $-4095, %rax
  jae 3f
  ret
3:
  movq %rax, %rdi
  jmp millrace_set_errno
  .cfi_endproc
  .size syscall, .-syscall
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl syscall
  .type syscall, %function
syscall:
  .cfi_startproc
  cmp x0, #512
  b.hs 1f
  adrp x9, millrace_hooked_calls
  add x9, x9, :lo12:millrace_hooked_calls
  lsr x10, x0, #6
  ldr x9, [x9, x10, lsl #3]
  lsr x9, x9, x0
  tbz x9, #0, 1f
  b millrace_hooked_syscall
1:
  adrp x9, millrace_real_syscall
  ldr x9, [x9, :lo12:millrace_real_syscall]
  cbz x9, 2f
  br x9
2:
  uxtw x8, w0
  mov x0, x1
  mov x1, x2
  mov x2, x3
  mov x3, x4
  mov x4, x5
  mov x5, x6
  svc #0
  cmn x0, #4095
  b.hs 3f
  ret
3:
  b millrace_set_errno
  .cfi_endproc
  .size syscall, .-syscall
)");
#endif
