// Syscalls: direct calls of the kernel.
//
// Not through libc: a hook that called libc's open would call itself or another preload library,
// and would change errno. Each function returns what the kernel returns: a value, or minus an errno
// value.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace::hook {

inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) {
#if defined(__x86_64__)
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0"
               : "+r"(x0)
               : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
               : "memory");
  return x0;
#else
#error "no system calls for this architecture"
#endif
}

// Our own system calls can be switched off for the whole process, because a sandbox (seccomp) could
// kill it for them. `own_sections` counts the threads inside a SignalsBlocked scope.
inline constinit std::atomic<bool> own_calls_off{false};
inline constinit std::atomic<uint32_t> own_sections{0};

// A system call that we make, not the program. -EPERM while own calls are switched off.
inline long own_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                     long f = 0) {
  if (own_calls_off.load(std::memory_order_relaxed)) return -EPERM;
  return system_call(number, a, b, c, d, e, f);
}

inline long word(const void* pointer) { return reinterpret_cast<long>(pointer); }

inline int sys_openat(int directory, const char* path, int flags, unsigned mode = 0) {
  return static_cast<int>(
      own_call(SYS_openat, directory, word(path), flags | O_CLOEXEC, static_cast<long>(mode)));
}
inline int sys_open(const char* path, int flags, unsigned mode = 0) {
  return sys_openat(AT_FDCWD, path, flags, mode);
}
inline int sys_close(int fd) { return static_cast<int>(own_call(SYS_close, fd)); }
inline long sys_read(int fd, void* buffer, size_t size) {
  return own_call(SYS_read, fd, word(buffer), static_cast<long>(size));
}
inline long sys_pread(int fd, void* buffer, size_t size, uint64_t offset) {
  return own_call(SYS_pread64, fd, word(buffer), static_cast<long>(size),
                  static_cast<long>(offset));
}
inline long sys_write(int fd, const void* buffer, size_t size) {
  return own_call(SYS_write, fd, word(buffer), static_cast<long>(size));
}
inline long sys_lseek(int fd, long offset, int whence) {
  return own_call(SYS_lseek, fd, offset, whence);
}
inline int sys_fallocate(int fd, uint64_t offset, uint64_t size) {
  return static_cast<int>(
      own_call(SYS_fallocate, fd, 0, static_cast<long>(offset), static_cast<long>(size)));
}
// The longest file that this process may make. Growing one beyond that sends it SIGXFSZ, which ends
// most programs: check before a write of our own.
inline uint64_t sys_file_bytes_max() {
  rlimit limit = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  own_call(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, word(&limit));
  return limit.rlim_cur;
}
inline int sys_ftruncate(int fd, uint64_t size) {
  return static_cast<int>(own_call(SYS_ftruncate, fd, static_cast<long>(size)));
}
inline long sys_readlink(const char* path, char* buffer, size_t size) {
  return own_call(SYS_readlinkat, AT_FDCWD, word(path), word(buffer), static_cast<long>(size));
}
inline int sys_mkdir(const char* path, unsigned mode) {
  return static_cast<int>(own_call(SYS_mkdirat, AT_FDCWD, word(path), static_cast<long>(mode)));
}
inline int sys_unlink(const char* path) {
  return static_cast<int>(own_call(SYS_unlinkat, AT_FDCWD, word(path), 0));
}
inline int sys_link(const char* from, const char* to) {
  return static_cast<int>(own_call(SYS_linkat, AT_FDCWD, word(from), AT_FDCWD, word(to), 0));
}
// The same calls, relative to an open directory.
inline long sys_readlinkat(int directory, const char* path, char* buffer, size_t size) {
  return own_call(SYS_readlinkat, directory, word(path), word(buffer), static_cast<long>(size));
}
inline int sys_mkdirat(int directory, const char* path, unsigned mode) {
  return static_cast<int>(own_call(SYS_mkdirat, directory, word(path), static_cast<long>(mode)));
}
inline int sys_unlinkat(int directory, const char* path, int flags = 0) {
  return static_cast<int>(own_call(SYS_unlinkat, directory, word(path), flags));
}
inline int sys_symlinkat(const char* target, int directory, const char* path) {
  return static_cast<int>(own_call(SYS_symlinkat, word(target), directory, word(path)));
}
inline int sys_renameat(int directory, const char* from, const char* to) {
  return static_cast<int>(own_call(SYS_renameat2, directory, word(from), directory, word(to), 0));
}
inline int sys_lstatat(int directory, const char* path, struct stat* info) {
  return static_cast<int>(
      own_call(SYS_newfstatat, directory, word(path), word(info), AT_SYMLINK_NOFOLLOW));
}
inline int sys_access(const char* path, int mode) {
  return static_cast<int>(own_call(SYS_faccessat, AT_FDCWD, word(path), mode));
}
inline int sys_flock(int fd, int operation) {
  return static_cast<int>(own_call(SYS_flock, fd, operation));
}
inline int sys_fsync(int fd) { return static_cast<int>(own_call(SYS_fsync, fd)); }
inline int sys_fdatasync(int fd) { return static_cast<int>(own_call(SYS_fdatasync, fd)); }
inline int sys_fchmod(int fd, unsigned mode) {
  return static_cast<int>(own_call(SYS_fchmod, fd, static_cast<long>(mode)));
}
inline void sys_sleep_ms(uint32_t time_ms) {
  const timespec time = {time_ms / 1000, static_cast<long>(time_ms % 1000) * 1'000'000};
  own_call(SYS_nanosleep, word(&time));
}
inline uint64_t sys_time_ns(clockid_t clock) {
  timespec now = {};
  own_call(SYS_clock_gettime, clock, word(&now));
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}
inline long sys_getcwd(char* buffer, size_t size) {
  return own_call(SYS_getcwd, word(buffer), static_cast<long>(size));
}
inline int sys_fstat(int fd, struct stat* info) {
  return static_cast<int>(own_call(SYS_fstat, fd, word(info)));
}
inline int sys_lstat(const char* path, struct stat* info) {
  return static_cast<int>(
      own_call(SYS_newfstatat, AT_FDCWD, word(path), word(info), AT_SYMLINK_NOFOLLOW));
}
inline uint32_t sys_geteuid() { return static_cast<uint32_t>(own_call(SYS_geteuid)); }
inline uint32_t sys_getpid() { return static_cast<uint32_t>(own_call(SYS_getpid)); }
inline uint32_t sys_getppid() { return static_cast<uint32_t>(own_call(SYS_getppid)); }
inline uint32_t sys_gettid() { return static_cast<uint32_t>(own_call(SYS_gettid)); }
inline void sys_yield() { own_call(SYS_sched_yield); }

// Null if the kernel refuses; *error is then the errno value.
inline void* sys_mmap(size_t size, int protection, int flags, int fd, uint64_t offset,
                      int* error = nullptr) {
  const long result = own_call(SYS_mmap, 0, static_cast<long>(size), protection, flags, fd,
                               static_cast<long>(offset));
  if (result < 0 && result > -4096) {
    if (error != nullptr) *error = static_cast<int>(-result);
    return nullptr;
  }
  return reinterpret_cast<void*>(result);
}
inline void sys_munmap(void* address, size_t size) {
  own_call(SYS_munmap, word(address), static_cast<long>(size));
}
inline int sys_madvise(void* address, size_t size, int advice) {
  return static_cast<int>(own_call(SYS_madvise, word(address), static_cast<long>(size), advice));
}

// While this exists, no signal handler runs on this thread and our own system calls are not
// switched off. If they already were, it does nothing.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    own_sections.fetch_add(1);
    if (own_calls_off.load()) return;
    const uint64_t all = ~uint64_t{0};
    system_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, word(&all), word(&before_), 8);
    blocked_ = true;
  }
  ~SignalsBlocked() {
    if (blocked_) system_call(SYS_rt_sigprocmask, 2, word(&before_), 0, 8);
    own_sections.fetch_sub(1);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  uint64_t before_ = 0;
  bool blocked_ = false;
};

// Switches our own system calls off after the other threads have left their sections. The wait is
// bounded: a forked child inherits the counts of threads that it does not have.
inline void switch_own_calls_off() {
  constexpr int kYieldsMax = 10'000;
  for (int i = 0; i < kYieldsMax && own_sections.load() != 0; ++i) sys_yield();
  own_calls_off.store(true);
  // Threads that entered between the loop and the store.
  for (int i = 0; i < kYieldsMax && own_sections.load() != 0; ++i) system_call(SYS_sched_yield);
}
inline void switch_own_calls_on() { own_calls_off.store(false); }

}  // namespace millrace::hook
