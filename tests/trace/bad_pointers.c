// Passes invalid pointers and lists of impossible length to system calls. Prints the result and
// errno of each, so that a run under the recorder can be compared with one without. Usage:
// bad_pointers FILE
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char* file;
static int fd;
static int target;  // to write to

#define TRY(call)                                              \
  do {                                                         \
    errno = 0;                                                 \
    const long result = (long)(call);                          \
    printf("%s: %s: %ld %d\n", what, #call, result, errno);    \
    fflush(stdout);                                            \
  } while (0)

// An invalid path, of one of several kinds.
static void paths(const char* what, char* bad) {
  struct stat status;
  struct statx extended;
  struct statfs system;
  char text[64];
  char* const arguments[] = {"true", NULL};
  TRY(open(bad, O_RDONLY));
  TRY(open(bad, O_RDONLY | O_TMPFILE));  // fails with EINVAL before the path is read
  TRY(open(bad, O_RDWR | O_CREAT | O_EXCL, 0600));
  TRY(openat(AT_FDCWD, bad, O_RDONLY));
  TRY(openat(fd, bad, O_RDONLY));
  TRY(openat(-1, bad, O_RDONLY));
  TRY(creat(bad, 0600));
  TRY(syscall(SYS_openat, AT_FDCWD, bad, O_RDONLY));
  TRY(stat(bad, &status));
  TRY(lstat(bad, &status));
  TRY(fstatat(AT_FDCWD, bad, &status, 0));
  TRY(fstatat(AT_FDCWD, bad, &status, -1));
  TRY(statx(AT_FDCWD, bad, 0, STATX_ALL, &extended));
  TRY(statx(AT_FDCWD, bad, -1, STATX_ALL, &extended));
  TRY(statfs(bad, &system));
  TRY(access(bad, R_OK));
  TRY(access(bad, 0x7fff));
  TRY(faccessat(AT_FDCWD, bad, R_OK, 0));
  TRY(chmod(bad, 0600));
  TRY(chown(bad, (uid_t)-1, (gid_t)-1));
  TRY(truncate(bad, 0));
  TRY(truncate(bad, -1));
  TRY(utimensat(AT_FDCWD, bad, NULL, 0x7fff));
  TRY(mkdir(bad, 0700));
  TRY(rmdir(bad));
  TRY(unlink(bad));
  TRY(unlinkat(AT_FDCWD, bad, 0x7fff));
  TRY(remove(bad));
  TRY(rename(bad, "/nowhere/to"));
  TRY(rename("/nowhere/from", bad));
  TRY(renameat2(AT_FDCWD, bad, AT_FDCWD, bad, 0x7fff));
  TRY(link(bad, "/nowhere/to"));
  TRY(linkat(AT_FDCWD, bad, AT_FDCWD, "/nowhere/to", 0x7fff));
  TRY(symlink("text", bad));
  TRY(readlink(bad, text, sizeof(text)));
  TRY(readlink(bad, text, 0));
  TRY(mknod(bad, S_IFREG | 0600, 0));
  TRY(mkfifo(bad, 0600));
  TRY(chdir(bad));
  TRY(getxattr(bad, "user.a", text, sizeof(text)));
  TRY(setxattr(bad, "user.a", text, 1, 0x7fff));
  TRY(listxattr(bad, text, sizeof(text)));
  TRY(removexattr(bad, "user.a"));
  TRY(fopen(bad, "r") != NULL);
  TRY(fopen(bad, "?") != NULL);
  TRY(freopen(bad, "r", stdin) != NULL);
  TRY(execve(bad, arguments, environ));
  TRY(execve(bad, arguments, NULL));
  TRY(execveat(AT_FDCWD, bad, arguments, environ, 0));
  pid_t child;
  TRY(posix_spawn(&child, bad, NULL, NULL, arguments, environ));
}

static int run_in_child(void (*run)(void)) {
  const pid_t child = fork();
  if (child == 0) {
    run();
    _exit(errno);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

static char* bad_text;
static void exec_with_bad_list(void) {
  char* const arguments[] = {"true", NULL};
  execve("/bin/true", arguments, (char* const*)bad_text);
}
static void exec_with_bad_string(void) {
  char* const arguments[] = {"true", NULL};
  char* const environment[] = {"A=1", bad_text, NULL};
  execve("/bin/true", arguments, environment);
}
static void exec_with_bad_arguments(void) { execve("/bin/true", (char* const*)bad_text, environ); }
static void exec_without_lists(void) { execve("/bin/true", NULL, NULL); }

static void programs(void) {
  const char* what = "programs";
  TRY(run_in_child(exec_with_bad_list));
  TRY(run_in_child(exec_with_bad_string));
  TRY(run_in_child(exec_with_bad_arguments));
  TRY(run_in_child(exec_without_lists));
  TRY(system(bad_text));
  TRY(system(NULL) != 0);
  FILE* stream = popen(bad_text, "r");
  TRY(stream != NULL);
  if (stream != NULL) TRY(pclose(stream));
  char* const arguments[] = {"true", NULL};
  pid_t child;
  TRY(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, (char* const*)bad_text));
}

static void lists(const char* what, const struct iovec* parts, int count) {
  TRY(readv(fd, parts, count));
  TRY(writev(target, parts, count));
  TRY(preadv(fd, parts, count, 0));
  TRY(pwritev(target, parts, count, 0));
  TRY(preadv2(fd, parts, count, 0, 0));
  TRY(preadv2(fd, parts, count, -1, 0));
  TRY(pwritev2(target, parts, count, 0, 0));
  TRY(syscall(SYS_readv, fd, parts, (long)count));
  TRY(syscall(SYS_writev, target, parts, (long)count));
  int ends[2];
  if (pipe(ends) == 0) {
    TRY(vmsplice(ends[1], parts, (size_t)count, SPLICE_F_NONBLOCK));
    close(ends[0]);
    close(ends[1]);
  }
}

// The C library itself reads the first byte of these.
static void directories(const char* what, const char* bad) {
  struct dirent** list;
  TRY(opendir(bad) != NULL);
  TRY(scandir(bad, &list, NULL, NULL));
}

static void others(void* bad) {
  const char* what = "others";
  TRY(read(fd, bad, 10));
  TRY(pread(fd, bad, 10, 0));
  TRY(write(target, bad, 10));
  TRY(stat(file, bad));
  TRY(fstat(fd, bad));
  TRY(statx(AT_FDCWD, file, 0, STATX_ALL, bad));
  TRY(statfs(file, bad));
  TRY(readlink("/proc/self/exe", bad, 100));
  TRY(sendfile(target, fd, bad, 10));
  TRY(copy_file_range(fd, bad, target, NULL, 10, 0));
  TRY(copy_file_range(fd, NULL, target, bad, 10, 0));
  TRY(splice(fd, bad, target, NULL, 10, 0));
  TRY(getdents64(fd, bad, 100));
  TRY(pipe(bad));
  TRY(closedir(NULL));
  TRY(fflush(NULL));
  TRY(realpath(NULL, NULL) != NULL);
  TRY(syscall(SYS_readv, fd, bad, 1l << 32));
  TRY(syscall(SYS_writev, target, bad, 1l << 32));
  const struct iovec part = {bad, 10};
  TRY(readv(fd, &part, 1));
  TRY(writev(target, &part, 1));
  const struct iovec huge[2] = {{bad, SIZE_MAX}, {bad, SIZE_MAX}};
  TRY(readv(fd, huge, 2));
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  file = argv[1];
  fd = open(file, O_RDONLY);
  target = open("/dev/null", O_WRONLY);
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* memory = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fd < 0 || target < 0 || memory == MAP_FAILED) return 2;
  // A page of text without a terminator, followed by unmapped memory.
  memset(memory, 'a', 2 * page);
  mprotect(memory + 2 * page, page, PROT_NONE);
  bad_text = memory + 2 * page;
  paths("null", NULL);
  paths("no memory", bad_text);
  paths("low memory", (char*)16);
  paths("no end", memory + 2 * page - 100);
  paths("longer than a path", memory + 2 * page - PATH_MAX);
  directories("no end", memory + 2 * page - 100);
  directories("longer than a path", memory + 2 * page - PATH_MAX);
  programs();
  lists("null", NULL, 1);
  lists("no memory", (struct iovec*)bad_text, 1);
  lists("partly there", (struct iovec*)(bad_text - sizeof(struct iovec)), 2);
  lists("too many", (struct iovec*)memory, INT_MAX);
  lists("negative", (struct iovec*)memory, -1);
  others(bad_text);
  others((void*)16);
  return 0;
}
