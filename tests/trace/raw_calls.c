// Makes each system call ten times, without a C library: only a tracer from outside can record
// them. Runs in a directory with a file `data` of 4096 bytes; all_test.py knows what it does. Exits
// with the number of the first line that failed, modulo 256, or 0.
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define TRY(condition) \
  if (!(condition)) leave(__LINE__ % 256 == 0 ? 1 : __LINE__ % 256)

static long call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#else
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
#endif
}

#define CALL(number, a, b, c, d, e) \
  call(SYS_##number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

static void leave(int code) { CALL(exit_group, code, 0, 0, 0, 0); }

static char buffer[4096];
static struct iovec parts[2] = {{buffer, 10}, {buffer + 10, 20}};

static void read_and_write(int fd, long i) {
  TRY(CALL(read, fd, buffer, 100, 0, 0) == 100);
  TRY(CALL(read, fd, buffer, 50, 0, 0) == 50);
  TRY(CALL(lseek, fd, 1000 + i, 0 /* SEEK_SET */, 0, 0) == 1000 + i);
  TRY(CALL(readv, fd, parts, 2, 0, 0) == 30);
  TRY(CALL(pread64, fd, buffer, 64, 256 * i, 0) == 64);
  TRY(CALL(preadv, fd, parts, 2, 8 * i, 0) == 30);
  TRY(call(SYS_preadv2, fd, (long)parts, 2, -1, -1, 0) == 30);
  TRY(CALL(write, fd, buffer, 5, 0, 0) == 5);
  TRY(CALL(pwrite64, fd, buffer, 7, 2000 + i, 0) == 7);
  TRY(CALL(writev, fd, parts, 2, 0, 0) == 30);
  TRY(CALL(pwritev, fd, parts, 2, 3000 + i, 0) == 30);
  const long copy = CALL(dup, fd, 0, 0, 0, 0);
  TRY(CALL(read, copy, buffer, 11, 0, 0) == 11);
  const long high = CALL(fcntl, fd, F_DUPFD, 100, 0, 0);
  TRY(high == 100 && CALL(read, high, buffer, 12, 0, 0) == 12);
  TRY(CALL(dup3, fd, 200, 0, 0, 0) == 200 && CALL(read, 200, buffer, 13, 0, 0) == 13);
  TRY(CALL(close, copy, 0, 0, 0, 0) == 0 && CALL(close, high, 0, 0, 0, 0) == 0);
  TRY(CALL(close_range, 200, 200, 0, 0, 0) == 0);
  TRY(CALL(read, 200, buffer, 1, 0, 0) == -9 /* EBADF */);
}

static void transfer(int fd) {
  const long out = CALL(openat, AT_FDCWD, "out", O_RDWR | O_CREAT | O_TRUNC, 0644, 0);
  TRY(out >= 0);
  long from = 300;
  TRY(CALL(sendfile, out, fd, &from, 40, 0) == 40);
  from = 500;
  TRY(CALL(copy_file_range, fd, &from, out, 0, 20) == 20);
  TRY(CALL(ftruncate, out, 4000, 0, 0, 0) == 0);
  TRY(CALL(fallocate, out, 0, 16, 6000, 0) == 0);
  TRY(CALL(fadvise64, out, 0, 100, 3 /* POSIX_FADV_WILLNEED */, 0) == 0);
  TRY(CALL(fsync, out, 0, 0, 0, 0) == 0);
  TRY(CALL(fdatasync, out, 0, 0, 0, 0) == 0);
  TRY(CALL(close, out, 0, 0, 0, 0) == 0);
}

static void append(void) {
  const long fd = CALL(openat, AT_FDCWD, "log", O_WRONLY | O_CREAT | O_APPEND, 0644, 0);
  TRY(fd >= 0 && CALL(write, fd, buffer, 9, 0, 0) == 9 && CALL(close, fd, 0, 0, 0, 0) == 0);
}

static void map(int fd) {
  const long at = call(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED, fd, 0);
  TRY(at > 0);
  TRY(CALL(msync, at, 4096, MS_ASYNC, 0, 0) == 0);
  TRY(CALL(munmap, at, 4096, 0, 0, 0) == 0);
}

static void names(int fd) {
  struct statx extended;
  TRY(CALL(fstat, fd, buffer, 0, 0, 0) == 0);
  TRY(CALL(newfstatat, AT_FDCWD, "./sub/../data", buffer, 0, 0) == 0);
  TRY(CALL(newfstatat, fd, "", buffer, 0x1000 /* AT_EMPTY_PATH */, 0) == 0);
  TRY(CALL(statx, AT_FDCWD, "data", 0, STATX_SIZE, &extended) == 0);
  TRY(CALL(faccessat, AT_FDCWD, "missing", 0, 0, 0) == -2 /* ENOENT */);
  TRY(CALL(mkdirat, AT_FDCWD, "new", 0755, 0, 0) == 0);
  const long directory = CALL(openat, AT_FDCWD, "new", O_RDONLY | O_DIRECTORY, 0, 0);
  TRY(directory >= 0);
  const struct open_how how = {.flags = O_WRONLY | O_CREAT, .mode = 0644};
  const long file = CALL(openat2, directory, "file", &how, sizeof(how), 0);
  TRY(file >= 0 && CALL(close, file, 0, 0, 0, 0) == 0);
  TRY(CALL(renameat2, directory, "file", directory, "moved", 0) == 0);
  TRY(CALL(linkat, directory, "moved", directory, "linked", 0) == 0);
  TRY(CALL(symlinkat, "moved", directory, "pointer", 0, 0) == 0);
  TRY(CALL(readlinkat, directory, "pointer", buffer, 100, 0) == 5);
  TRY(CALL(getdents64, directory, buffer, sizeof(buffer), 0, 0) > 0);
  TRY(CALL(chdir, "new", 0, 0, 0, 0) == 0);
  TRY(CALL(unlinkat, AT_FDCWD, "moved", 0, 0, 0) == 0);
  TRY(CALL(unlinkat, AT_FDCWD, "linked", 0, 0, 0) == 0);
  TRY(CALL(unlinkat, AT_FDCWD, "pointer", 0, 0, 0) == 0);
  TRY(CALL(chdir, "..", 0, 0, 0, 0) == 0);
  TRY(CALL(unlinkat, AT_FDCWD, "new", 0x200 /* AT_REMOVEDIR */, 0, 0) == 0);
  TRY(CALL(close, directory, 0, 0, 0, 0) == 0);
  // Invalid addresses.
  TRY(CALL(openat, AT_FDCWD, 8, O_RDONLY, 0, 0) == -14 /* EFAULT */);
}

void _start(void) {
  for (long i = 0; i < 10; ++i) {
    const int fd = (int)CALL(openat, AT_FDCWD, "data", O_RDWR, 0, 0);
    TRY(fd >= 0);
    read_and_write(fd, i);
    transfer(fd);
    append();
    map(fd);
    names(fd);
    TRY(CALL(close, fd, 0, 0, 0, 0) == 0);
  }
  leave(0);
}
