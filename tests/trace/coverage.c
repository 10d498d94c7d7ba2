// Makes each call that the recorder knows ten times, and prints the events that it must record.
//
// Usage: coverage DIR. coverage_test.py makes files of 4096 bytes in DIR, one for each group below.
// Each line of the output is an expected event: call, file, offset, requested size, result; `-`
// means any value. Each group uses its own files, so that the test can check that each call on a
// file was recorded exactly as often as it was made.
#define _GNU_SOURCE
#include <aio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>
#include <wchar.h>

enum { kTimes = 10 };

// Functions that are only called by compiler-generated code.
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off_t, size_t);
size_t __fread_chk(void*, size_t, size_t, size_t, FILE*);
char* __fgets_chk(char*, size_t, int, FILE*);
int __fprintf_chk(FILE*, int, const char*, ...);
ssize_t __readlink_chk(const char*, char*, size_t, size_t);
char* __realpath_chk(const char*, char*, size_t);

static char expected[1 << 20];
static size_t expected_size;
static const char* dir;
static char path_buffer[8][4096];
static char data[8192];

static void check(int ok, const char* what, int line) {
  if (ok) return;
  dprintf(2, "coverage.c:%d: %s failed: %s\n", line, what, strerror(errno));
  _exit(1);
}
#define MUST(x) check((x), #x, __LINE__)

// The path of a group's file; valid until eight more paths were requested.
static const char* in(const char* name) {
  static int turn;
  char* buffer = path_buffer[turn++ % 8];
  snprintf(buffer, sizeof(path_buffer[0]), "%s/%s", dir, name);
  return buffer;
}

static void expect(const char* call, const char* name, long offset, long size, long result) {
  char fields[3][24];
  const long values[3] = {offset, size, result};
  for (int i = 0; i < 3; ++i) {
    if (values[i] == -99) {
      strcpy(fields[i], "-");
    } else {
      snprintf(fields[i], sizeof(fields[i]), "%ld", values[i]);
    }
  }
  expected_size += (size_t)snprintf(expected + expected_size, sizeof(expected) - expected_size,
                                    "%s\t%s/%s\t%s\t%s\t%s\n", call, dir, name, fields[0],
                                    fields[1], fields[2]);
}
#define ANY (-99L)
#define NONE (-1L) /* no offset */

static int opened(const char* name) {
  const int fd = open(in(name), O_RDWR);
  MUST(fd >= 0);
  return fd;
}

static void opening(void) {
  const int directory = open(dir, O_RDONLY | O_DIRECTORY);
  MUST(directory >= 0);
  for (int i = 0; i < kTimes; ++i) {
    int fds[12];
    int n = 0;
    fds[n++] = open(in("open"), O_RDONLY);
    fds[n++] = open64(in("open"), O_RDONLY);
    fds[n++] = __open_2(in("open"), O_RDONLY);
    fds[n++] = __open64_2(in("open"), O_RDONLY);
    fds[n++] = openat(AT_FDCWD, in("openat"), O_RDONLY);
    fds[n++] = openat(directory, "openat", O_RDONLY);
    fds[n++] = openat64(directory, "./sub/..//openat", O_RDONLY);
    fds[n++] = __openat_2(directory, "openat", O_RDONLY);
    fds[n++] = (int)syscall(SYS_openat, directory, "openat", O_RDONLY);
    fds[n++] = creat(in("creat"), 0644);
    for (int k = 0; k < n; ++k) {
      MUST(fds[k] >= 0);
      const char* name = k < 4 ? "open" : k < 9 ? "openat" : "creat";
      expect(name, name, NONE, 0, ANY);
      expect("close", name, NONE, 0, 0);
      MUST(close(fds[k]) == 0);
    }
  }
  MUST(chdir(dir) == 0);
  for (int i = 0; i < kTimes; ++i) {
    const int fd = open("sub/../relative", O_RDONLY);
    MUST(fd >= 0);
    close(fd);
    expect("open", "relative", NONE, 0, ANY);
    MUST(open(in("missing"), O_RDONLY) < 0 && errno == ENOENT);
    expect("open", "missing", NONE, 0, -1);
  }
  MUST(chdir("/") == 0);
  close(directory);
}

static void reading(void) {
  const int fd = opened("read");
  for (int i = 0; i < kTimes; ++i) {
    MUST(read(fd, data, 100) == 100);
    expect("read", "read", i * 200L, 100, 100);
    MUST(__read_chk(fd, data, 100, sizeof(data)) == 100);
    expect("read", "read", i * 200L + 100, 100, 100);
  }
  MUST(lseek(fd, 4000, SEEK_SET) == 4000);
  expect("lseek", "read", 4000, 0, 4000);
  MUST(syscall(SYS_read, fd, data, 500) == 96);
  expect("read", "read", 4000, 500, 96);
  MUST(read(fd, data, 500) == 0);
  expect("read", "read", 4096, 500, 0);
  for (int i = 0; i < kTimes; ++i) {
    const int copy = dup(fd);
    const int second = fcntl(fd, F_DUPFD, 200);
    MUST(copy >= 0 && second >= 200);
    MUST(lseek(copy, i * 10L, SEEK_SET) == i * 10);
    MUST(read(second, data, 7) == 7);
    MUST(read(fd, data, 7) == 7);
    expect("lseek", "read", i * 10L, 0, i * 10L);
    expect("read", "read", i * 10L, 7, 7);
    expect("read", "read", i * 10L + 7, 7, 7);
    expect("dup", "read", NONE, 0, ANY);
    expect("fcntl", "read", NONE, 0, ANY);
    close(copy);
    close(second);
  }
  close(fd);
  const int at = opened("pread");
  const struct iovec parts[2] = {{data, 30}, {data + 100, 20}};
  for (int i = 0; i < kTimes; ++i) {
    const long offset = i * 64L;
    MUST(pread(at, data, 50, offset) == 50);
    MUST(pread64(at, data, 50, offset) == 50);
    MUST(__pread_chk(at, data, 50, offset, sizeof(data)) == 50);
    MUST(__pread64_chk(at, data, 50, offset, sizeof(data)) == 50);
    MUST(syscall(SYS_pread64, at, data, 50, offset) == 50);
    for (int k = 0; k < 5; ++k) expect("pread", "pread", offset, 50, 50);
    MUST(preadv(at, parts, 2, offset) == 50);
    MUST(preadv64(at, parts, 2, offset) == 50);
    expect("preadv", "pread", offset, 50, 50);
    expect("preadv", "pread", offset, 50, 50);
    MUST(preadv2(at, parts, 2, offset, 0) == 50);
    MUST(preadv2(at, parts, 2, -1, 0) == 50);
    expect("preadv2", "pread", offset, 50, 50);
    expect("preadv2", "pread", i * 100L, 50, 50);
    MUST(readv(at, parts, 2) == 50);
    expect("readv", "pread", i * 100L + 50, 50, 50);
  }
  close(at);
}

static void writing(void) {
  const int fd = opened("write");
  const struct iovec parts[2] = {{data, 30}, {data + 100, 20}};
  for (int i = 0; i < kTimes; ++i) {
    MUST(write(fd, data, 10) == 10);
    expect("write", "write", i * 60L, 10, 10);
    MUST(writev(fd, parts, 2) == 50);
    expect("writev", "write", i * 60L + 10, 50, 50);
    MUST(pwrite(fd, data, 10, 2000) == 10);
    MUST(pwrite64(fd, data, 10, 2000) == 10);
    expect("pwrite", "write", 2000, 10, 10);
    expect("pwrite", "write", 2000, 10, 10);
    MUST(pwritev(fd, parts, 2, 3000) == 50);
    MUST(pwritev64(fd, parts, 2, 3000) == 50);
    expect("pwritev", "write", 3000, 50, 50);
    expect("pwritev", "write", 3000, 50, 50);
    MUST(pwritev2(fd, parts, 2, 3000, 0) == 50);
    expect("pwritev2", "write", 3000, 50, 50);
  }
  close(fd);
  const int log = open(in("append"), O_WRONLY | O_APPEND);
  for (int i = 0; i < kTimes; ++i) {
    MUST(write(log, data, 5) == 5);
    expect("write", "append", 4096 + i * 5L, 5, 5);
  }
  close(log);
  const int formatted = opened("dprintf");
  for (int i = 0; i < kTimes; ++i) {
    MUST(dprintf(formatted, "%04d", i) == 4);
    expect("fprintf", "dprintf", i * 4L, 0, 4);
  }
  close(formatted);
}

static void transferring(void) {
  const int from = opened("from");
  const int to = opened("to");
  for (int i = 0; i < kTimes; ++i) {
    off_t at = 1000;
    MUST(sendfile(to, from, &at, 40) == 40);
    expect("sendfile", "from", 1000, 40, 40);
    MUST(sendfile64(to, from, NULL, 40) == 40);
    expect("sendfile", "from", i * 40L, 40, 40);
    off_t in_at = 500;
    off_t out_at = 3000;
    MUST(copy_file_range(from, &in_at, to, &out_at, 60, 0) == 60);
    expect("copy_file_range", "from", 500, 60, 60);
  }
  close(from);
  close(to);
  const int source = opened("splice");
  int ends[2];
  MUST(pipe(ends) == 0);
  for (int i = 0; i < kTimes; ++i) {
    MUST(splice(source, NULL, ends[1], NULL, 16, 0) == 16);
    expect("splice", "splice", i * 16L, 16, 16);
    MUST(read(ends[0], data, 16) == 16);
  }
  close(ends[0]);
  close(ends[1]);
  close(source);
}

static void mapping(void) {
  const int fd = opened("map");
  for (int i = 0; i < kTimes; ++i) {
    char* memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    MUST(memory != MAP_FAILED);
    expect("mmap", "map", 0, 4096, 0);
    memory[0] = 'x';
    MUST(madvise(memory, 4096, MADV_SEQUENTIAL) == 0);
    expect("madvise", "map", 0, 4096, 0);
    MUST(posix_madvise(memory, 4096, POSIX_MADV_NORMAL) == 0);
    expect("madvise", "map", 0, 4096, 0);
    MUST(msync(memory, 4096, MS_SYNC) == 0);
    expect("msync", "map", 0, 4096, 0);
    memory = mremap(memory, 4096, 8192, MREMAP_MAYMOVE);
    MUST(memory != MAP_FAILED);
    expect("mremap", "map", 0, 8192, 0);
    MUST(munmap(memory, 8192) == 0);
    expect("munmap", "map", 0, 8192, 0);
    expect("mapped", "map", 0, 8192, ANY);
  }
  void* anonymous = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(anonymous, 4096);
  close(fd);
}

static void syncing(void) {
  const int fd = opened("sync");
  for (int i = 0; i < kTimes; ++i) {
    MUST(fsync(fd) == 0);
    expect("fsync", "sync", NONE, 0, 0);
    MUST(fdatasync(fd) == 0);
    expect("fdatasync", "sync", NONE, 0, 0);
    MUST(syncfs(fd) == 0);
    expect("syncfs", "sync", NONE, 0, 0);
    MUST(sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE) == 0);
    expect("sync_file_range", "sync", 0, 4096, 0);
    MUST(ftruncate(fd, 5000) == 0 && ftruncate64(fd, 5000) == 0);
    expect("ftruncate", "sync", NONE, 5000, 0);
    expect("ftruncate", "sync", NONE, 5000, 0);
    MUST(truncate(in("sync"), 4096) == 0 && truncate64(in("sync"), 4096) == 0);
    expect("truncate", "sync", NONE, 4096, 0);
    expect("truncate", "sync", NONE, 4096, 0);
    MUST(fallocate(fd, 0, 0, 4096) == 0 && posix_fallocate(fd, 0, 4096) == 0);
    expect("fallocate", "sync", 0, 4096, 0);
    expect("fallocate", "sync", 0, 4096, 0);
    MUST(posix_fadvise(fd, 100, 200, POSIX_FADV_RANDOM) == 0);
    expect("fadvise", "sync", 100, 200, 0);
    MUST(readahead(fd, 0, 4096) == 0);
    expect("readahead", "sync", 0, 4096, 0);
    MUST(flock(fd, LOCK_SH) == 0);
    expect("flock", "sync", NONE, 0, 0);
    MUST(lockf(fd, F_TEST, 0) == 0);
    expect("lockf", "sync", NONE, 0, 0);
  }
  close(fd);
}

// Functions for programs that were linked with older C libraries; looked up at run time.
static void* find(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  MUST(found != NULL);
  return found;
}

static void asking(void) {
  int (*const old_stat)(int, const char*, struct stat*) = find("__xstat");
  int (*const old_lstat)(int, const char*, struct stat*) = find("__lxstat");
  int (*const old_fstat)(int, int, struct stat*) = find("__fxstat");
  int (*const old_fstatat)(int, int, const char*, struct stat*, int) = find("__fxstatat");
  struct stat status;
  struct stat64 status64;
  struct statfs file_system;
  struct statvfs file_system2;
  struct statx extended;
  const int fd = opened("stat");
  const int directory = open(dir, O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < kTimes; ++i) {
    MUST(stat(in("stat"), &status) == 0 && stat64(in("stat"), &status64) == 0);
    expect("stat", "stat", NONE, 4096, 0);
    expect("stat", "stat", NONE, 4096, 0);
    MUST(lstat(in("stat"), &status) == 0 && lstat64(in("stat"), &status64) == 0);
    expect("lstat", "stat", NONE, 4096, 0);
    expect("lstat", "stat", NONE, 4096, 0);
    MUST(fstat(fd, &status) == 0 && fstat64(fd, &status64) == 0);
    expect("fstat", "stat", NONE, 4096, 0);
    expect("fstat", "stat", NONE, 4096, 0);
    MUST(fstatat(directory, "stat", &status, 0) == 0);
    MUST(fstatat64(directory, "stat", &status64, 0) == 0);
    expect("fstatat", "stat", NONE, 4096, 0);
    expect("fstatat", "stat", NONE, 4096, 0);
    MUST(statx(directory, "stat", 0, STATX_SIZE, &extended) == 0);
    expect("statx", "stat", NONE, 4096, 0);
    MUST(statfs(in("stat"), &file_system) == 0 && fstatfs(fd, &file_system) == 0);
    expect("statfs", "stat", NONE, 0, 0);
    expect("fstatfs", "stat", NONE, 0, 0);
    MUST(statvfs(in("stat"), &file_system2) == 0 && fstatvfs(fd, &file_system2) == 0);
    expect("statvfs", "stat", NONE, 0, 0);
    expect("fstatvfs", "stat", NONE, 0, 0);
    MUST(access(in("stat"), R_OK) == 0 && faccessat(directory, "stat", R_OK, 0) == 0);
    expect("access", "stat", NONE, 0, 0);
    expect("faccessat", "stat", NONE, 0, 0);
    MUST(stat(in("nothing"), &status) < 0 && errno == ENOENT);
    expect("stat", "nothing", NONE, 0, -1);
    MUST(stat(in("sub"), &status) == 0);
    expect("stat", "sub", NONE, 0, 0); /* the size of a directory is not recorded */
    MUST(stat(in("large"), &status) == 0 && status.st_size == 5L << 30);
    expect("stat", "large", NONE, 5L << 30, 0);
    MUST(old_stat(1, in("stat"), &status) == 0 && old_lstat(1, in("stat"), &status) == 0);
    expect("stat", "stat", NONE, 4096, 0);
    expect("lstat", "stat", NONE, 4096, 0);
    MUST(old_fstat(1, fd, &status) == 0 && old_fstatat(1, directory, "stat", &status, 0) == 0);
    expect("fstat", "stat", NONE, 4096, 0);
    expect("fstatat", "stat", NONE, 4096, 0);
  }
  close(fd);
  close(directory);
}

static void changing(void) {
  const int fd = opened("attributes");
  const int directory = open(dir, O_RDONLY | O_DIRECTORY);
  const struct timeval times[2] = {{1, 0}, {1, 0}};
  const struct timespec fine_times[2] = {{1, 0}, {1, 0}};
  const struct utimbuf old_times = {1, 1};
  for (int i = 0; i < kTimes; ++i) {
    const char* path = in("attributes");
    MUST(chmod(path, 0644) == 0 && fchmod(fd, 0644) == 0);
    MUST(fchmodat(directory, "attributes", 0644, 0) == 0);
    MUST(chown(path, getuid(), getgid()) == 0 && lchown(path, getuid(), getgid()) == 0);
    MUST(fchown(fd, getuid(), getgid()) == 0);
    MUST(fchownat(directory, "attributes", getuid(), getgid(), 0) == 0);
    MUST(utime(path, &old_times) == 0 && utimes(path, times) == 0 && lutimes(path, times) == 0);
    MUST(futimes(fd, times) == 0 && futimens(fd, fine_times) == 0);
    MUST(utimensat(directory, "attributes", fine_times, 0) == 0);
    static const char* const kCalls[] = {"chmod",  "fchmod",  "fchmodat", "chown",   "lchown",
                                         "fchown", "fchownat", "utime",   "utimes",  "lutimes",
                                         "futimes", "futimens", "utimensat"};
    for (size_t k = 0; k < sizeof(kCalls) / sizeof(*kCalls); ++k) {
      expect(kCalls[k], "attributes", NONE, 0, 0);
    }
  }
  close(fd);
  close(directory);
}

static void naming(void) {
  const int directory = open(dir, O_RDONLY | O_DIRECTORY);
  char text[4096];
  for (int i = 0; i < kTimes; ++i) {
    MUST(rename(in("name"), in("name2")) == 0 && rename(in("name2"), in("name")) == 0);
    expect("rename", "name", NONE, 0, 0);
    expect("rename", "name2", NONE, 0, 0);
    MUST(renameat(directory, "name", directory, "name2") == 0);
    MUST(renameat2(directory, "name2", directory, "name", 0) == 0);
    expect("renameat", "name", NONE, 0, 0);
    expect("renameat2", "name2", NONE, 0, 0);
    MUST(link(in("name"), in("link")) == 0 && unlink(in("link")) == 0);
    expect("link", "name", NONE, 0, 0);
    expect("unlink", "link", NONE, 0, 0);
    MUST(linkat(directory, "name", directory, "link", 0) == 0);
    MUST(unlinkat(directory, "link", 0) == 0);
    expect("linkat", "name", NONE, 0, 0);
    expect("unlinkat", "link", NONE, 0, 0);
    MUST(symlink("name", in("soft")) == 0 && readlink(in("soft"), text, 100) == 4);
    MUST(__readlink_chk(in("soft"), text, 100, sizeof(text)) == 4 && remove(in("soft")) == 0);
    expect("symlink", "soft", NONE, 0, 0);
    expect("readlink", "soft", NONE, 100, 4);
    expect("readlink", "soft", NONE, 100, 4);
    expect("remove", "soft", NONE, 0, 0);
    MUST(symlinkat("name", directory, "soft2") == 0);
    MUST(readlinkat(directory, "soft2", text, 100) == 4 && unlink(in("soft2")) == 0);
    expect("symlinkat", "soft2", NONE, 0, 0);
    expect("readlinkat", "soft2", NONE, 100, 4);
    MUST(mkdir(in("newdir"), 0755) == 0 && rmdir(in("newdir")) == 0);
    expect("mkdir", "newdir", NONE, 0, 0);
    expect("rmdir", "newdir", NONE, 0, 0);
    MUST(mkdirat(directory, "newdir2", 0755) == 0 && rmdir(in("newdir2")) == 0);
    expect("mkdirat", "newdir2", NONE, 0, 0);
    MUST(mkfifo(in("fifo"), 0644) == 0 && unlink(in("fifo")) == 0);
    expect("mkfifo", "fifo", NONE, 0, 0);
    MUST(mkfifoat(directory, "fifo2", 0644) == 0 && unlink(in("fifo2")) == 0);
    expect("mkfifoat", "fifo2", NONE, 0, 0);
    MUST(mknod(in("node"), S_IFREG | 0644, 0) == 0 && unlink(in("node")) == 0);
    expect("mknod", "node", NONE, 0, 0);
    MUST(realpath(in("name"), text) != NULL);
    MUST(__realpath_chk(in("name"), text, sizeof(text)) != NULL);
    expect("realpath", "name", NONE, 0, 0);
    expect("realpath", "name", NONE, 0, 0);
    MUST(chdir(in("sub")) == 0 && fchdir(directory) == 0);
    expect("chdir", "sub", NONE, 0, 0);
    snprintf(text, sizeof(text), "%s/tmpXXXXXX", dir);
    const int fd = mkstemp(text);
    MUST(fd >= 0);
    expect("mkstemp", text + strlen(dir) + 1, NONE, 0, ANY);
    close(fd);
    unlink(text);
  }
  MUST(chdir("/") == 0);
  close(directory);
}

static int visit(const char* path, const struct stat* status, int type) {
  (void)path, (void)status, (void)type;
  return 0;
}
static int visit_more(const char* path, const struct stat* status, int type, struct FTW* more) {
  (void)path, (void)status, (void)type, (void)more;
  return 0;
}

static void listing(void) {
  for (int i = 0; i < kTimes; ++i) {
    DIR* directory = opendir(in("sub"));
    MUST(directory != NULL);
    expect("opendir", "sub", NONE, 0, 0);
    errno = 77;
    while (readdir(directory) != NULL) expect("readdir", "sub", NONE, 0, 1);
    MUST(errno == 77);
    expect("readdir", "sub", NONE, 0, 0);
    rewinddir(directory);
    expect("rewinddir", "sub", NONE, 0, 0);
    MUST(readdir64(directory) != NULL);
    expect("readdir", "sub", NONE, 0, 1);
    const long place = telldir(directory);
    expect("telldir", "sub", NONE, 0, 0);
    seekdir(directory, place);
    expect("seekdir", "sub", NONE, 0, 0);
    MUST(closedir(directory) == 0);
    expect("closedir", "sub", NONE, 0, 0);
    const int fd = open(in("sub"), O_RDONLY | O_DIRECTORY);
    MUST(getdents64(fd, data, sizeof(data)) > 0);
    expect("getdents64", "sub", NONE, sizeof(data), ANY);
    directory = fdopendir(fd);
    MUST(directory != NULL);
    expect("fdopendir", "sub", NONE, 0, 0);
    closedir(directory);
    expect("closedir", "sub", NONE, 0, 0);
    struct dirent** entries;
    const int count = scandir(in("sub"), &entries, NULL, NULL);
    MUST(count == 3);
    expect("scandir", "sub", NONE, 0, 3);
    for (int k = 0; k < count; ++k) free(entries[k]);
    free(entries);
    MUST(ftw(in("sub"), visit, 8) == 0 && nftw(in("sub"), visit_more, 8, 0) == 0);
    expect("ftw", "sub", NONE, 0, 0);
    expect("nftw", "sub", NONE, 0, 0);
  }
}

static void attributes(void) {
  const int fd = opened("xattr");
  if (setxattr(in("xattr"), "user.probe", "1234", 4, 0) != 0) {
    close(fd);
    return;  // not supported by the file system
  }
  expect("setxattr", "xattr", NONE, 4, 0);
  for (int i = 0; i < kTimes; ++i) {
    MUST(getxattr(in("xattr"), "user.probe", data, 100) == 4);
    expect("getxattr", "xattr", NONE, 100, 4);
    MUST(fgetxattr(fd, "user.probe", data, 100) == 4);
    expect("fgetxattr", "xattr", NONE, 100, 4);
    MUST(fsetxattr(fd, "user.probe", "1234", 4, 0) == 0);
    expect("fsetxattr", "xattr", NONE, 4, 0);
    MUST(listxattr(in("xattr"), data, 100) > 0);
    expect("listxattr", "xattr", NONE, 100, ANY);
    MUST(flistxattr(fd, data, 100) > 0);
    expect("flistxattr", "xattr", NONE, 100, ANY);
    MUST(fremovexattr(fd, "user.probe") == 0 && setxattr(in("xattr"), "user.probe", "1", 1, 0) == 0);
    expect("fremovexattr", "xattr", NONE, 0, 0);
    expect("setxattr", "xattr", NONE, 1, 0);
    MUST(removexattr(in("xattr"), "user.probe") == 0);
    expect("removexattr", "xattr", NONE, 0, 0);
    MUST(setxattr(in("xattr"), "user.probe", "1234", 4, 0) == 0);
    expect("setxattr", "xattr", NONE, 4, 0);
  }
  close(fd);
}

static void asynchronous(void) {
  const int fd = opened("aio");
  for (int i = 0; i < kTimes; ++i) {
    struct aiocb request = {.aio_fildes = fd, .aio_buf = data, .aio_nbytes = 64,
                            .aio_offset = i * 64};
    const struct aiocb* const list[1] = {&request};
    MUST(aio_read(&request) == 0);
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
    MUST(aio_return(&request) == 64);
    expect("aio_read", "aio", i * 64L, 64, 0);
    expect("aio_return", "aio", i * 64L, 64, 64);
    MUST(aio_write(&request) == 0);
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
    MUST(aio_return(&request) == 64);
    expect("aio_write", "aio", i * 64L, 64, 0);
    expect("aio_return", "aio", i * 64L, 64, 64);
    MUST(aio_fsync(O_SYNC, &request) == 0);
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
    expect("aio_fsync", "aio", NONE, 0, 0);
  }
  close(fd);
}

static void streaming(void) {
  FILE* stream = fopen(in("stream"), "r+");
  MUST(stream != NULL);
  expect("fopen", "stream", NONE, 0, 0);
  for (int i = 0; i < kTimes; ++i) {
    const long base = i * 100L;
    MUST(fseek(stream, base, SEEK_SET) == 0);
    MUST(fread(data, 5, 4, stream) == 4);
    expect("fread", "stream", base, 20, 20);
    MUST(__fread_chk(data, sizeof(data), 1, 10, stream) == 10);
    expect("fread", "stream", base + 20, 10, 10);
    MUST(fread_unlocked(data, 1, 10, stream) == 10);
    expect("fread", "stream", base + 30, 10, 10);
    MUST(fgetc(stream) != EOF && getc(stream) != EOF);
    expect("fgetc", "stream", base + 40, 1, 1);
    expect("fgetc", "stream", base + 41, 1, 1);
    MUST(ftell(stream) == base + 42 && ftello(stream) == base + 42);
    expect("ftell", "stream", base + 42, 0, base + 42);
    expect("ftell", "stream", base + 42, 0, base + 42);
    MUST(fseeko(stream, base + 50, SEEK_SET) == 0);
    MUST(fwrite(data, 1, 8, stream) == 8);
    expect("fwrite", "stream", base + 50, 8, 8);
    MUST(fputs("abc", stream) >= 0);
    expect("fputs", "stream", base + 58, 3, 3);
    MUST(fputc('d', stream) == 'd' && putc('e', stream) == 'e');
    expect("fputc", "stream", base + 61, 1, 1);
    expect("fputc", "stream", base + 62, 1, 1);
    MUST(fprintf(stream, "%05d", i) == 5);
    expect("fprintf", "stream", base + 63, 0, 5);
    MUST(__fprintf_chk(stream, 1, "%05d", i) == 5);
    expect("fprintf", "stream", base + 68, 0, 5);
    MUST(fflush(stream) == 0);
    expect("fflush", "stream", base + 73, 0, 0);
  }
  rewind(stream);
  expect("rewind", "stream", ANY, 0, 0);
  MUST(fclose(stream) == 0);
  expect("fclose", "stream", NONE, 0, 0);
}

static void lines(void) {
  // The file holds lines of eight bytes: "line 000\n" would be nine; see coverage_test.py.
  FILE* stream = fopen64(in("lines"), "r");
  char* line = NULL;
  size_t room = 0;
  MUST(stream != NULL);
  for (int i = 0; i < kTimes; ++i) {
    const long base = i * 48L;
    MUST(fgets(data, 100, stream) != NULL);
    expect("fgets", "lines", base, 100, 8);
    MUST(__fgets_chk(data, sizeof(data), 100, stream) != NULL);
    expect("fgets", "lines", base + 8, 100, 8);
    MUST(fgets_unlocked(data, 100, stream) != NULL);
    expect("fgets", "lines", base + 16, 100, 8);
    MUST(getline(&line, &room, stream) == 8);
    expect("getline", "lines", base + 24, 0, 8);
    MUST(getdelim(&line, &room, '\n', stream) == 8);
    expect("getdelim", "lines", base + 32, 0, 8);
    int number = 0;
    MUST(fscanf(stream, "%d\n", &number) == 1);
    expect("fscanf", "lines", base + 40, 0, 8);
  }
  free(line);
  fclose(stream);
}

static void programs(void) {
  extern char** environ;
  char* const arguments[] = {(char*)"true", NULL};
  for (int i = 0; i < kTimes; ++i) {
    pid_t child;
    MUST(posix_spawn(&child, in("program"), NULL, NULL, arguments, environ) == 0);
    waitpid(child, NULL, 0);
    expect("posix_spawn", "program", NONE, 0, 0);
    child = fork();
    if (child == 0) {
      execl(in("program"), "true", (char*)NULL);
      _exit(1);
    }
    waitpid(child, NULL, 0);
    expect("exec", "program", NONE, 0, 0);
    child = vfork();
    if (child == 0) {
      execv(in("program"), arguments);
      _exit(1);
    }
    waitpid(child, NULL, 0);
    expect("exec", "program", NONE, 0, 0);
    // All three call exec, and so record their start themselves.
    for (int k = 0; k < 3; ++k) expect("start", "program", NONE, 0, 0);
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  dir = argv[1];
  opening();
  reading();
  writing();
  transferring();
  mapping();
  syncing();
  asking();
  changing();
  naming();
  listing();
  attributes();
  asynchronous();
  streaming();
  lines();
  programs();
  size_t written = 0;
  while (written < expected_size) {
    const ssize_t n = write(1, expected + written, expected_size - written);
    if (n <= 0) return 1;
    written += (size_t)n;
  }
  return 0;
}
