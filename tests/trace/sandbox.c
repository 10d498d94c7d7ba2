// Enters a seccomp sandbox and continues to read. Usage: sandbox MODE FILE. Any system call that is
// not the program's own kills it. Exits with 5 on success.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBefore = 3000, kAfter = 10000 };
static char block[512];
static int file;

// More events than a ring holds, so that the recorder would have to write it to the log.
static void read_many(int times) {
  for (int i = 0; i < times; ++i) {
    if (read(file, block, 1) != 1) syscall(SYS_exit, 1);
  }
}

static void allow(struct sock_filter* at, unsigned call) {
  at[0] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
  at[1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
}

// Kills the process at any call that is not in the list.
static struct sock_fprog allow_only(const int* calls, size_t count) {
  static struct sock_filter code[64];
  code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; ++i) allow(code + 1 + 2 * i, (unsigned)calls[i]);
  code[1 + 2 * count] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  return (struct sock_fprog){.len = (unsigned short)(2 + 2 * count), .filter = code};
}

static const int kNarrow[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group};
#define NARROW allow_only(kNarrow, sizeof(kNarrow) / sizeof(*kNarrow))

static int strict(void) {
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 1;
  read_many(kAfter);
  if (write(1, "alive\n", 6) != 6) return 1;
  syscall(SYS_exit, 5);
  return 1;
}

static int by_prctl(void) {
  struct sock_fprog filter = NARROW;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) return 1;
  read_many(kAfter);
  if (write(1, "alive\n", 6) != 6) return 1;
  exit(5);
}

static int by_seccomp(void) {
  struct sock_fprog filter = NARROW;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) return 1;
  read_many(kAfter);
  if (write(1, "alive\n", 6) != 6) return 1;
  _exit(5);
}

static void* reader(void* argument) {
  (void)argument;
  read_many(40 * kAfter);
  return NULL;
}

// One filter for all threads, which read at the same time.
static int all_threads(void) {
  static const int kCalls[] = {SYS_read,   SYS_write,   SYS_exit,           SYS_exit_group, SYS_futex,
                               SYS_madvise, SYS_munmap, SYS_rt_sigprocmask, SYS_rseq,       SYS_set_robust_list};
  struct sock_fprog filter = allow_only(kCalls, sizeof(kCalls) / sizeof(*kCalls));
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, reader, NULL);
  read_many(kAfter);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0) return 1;
  read_many(kAfter);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  if (write(1, "alive\n", 6) != 6) return 1;
  _exit(5);
}

// A forked child inherits the filter, which forbids what the recorder needs to start.
static int with_child(void) {
  static const int kCalls[] = {SYS_read,  SYS_write, SYS_exit,           SYS_exit_group, SYS_clone,
                               SYS_wait4, SYS_futex, SYS_set_robust_list, SYS_rseq,      SYS_gettid};
  struct sock_fprog filter = allow_only(kCalls, sizeof(kCalls) / sizeof(*kCalls));
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    read_many(kAfter);
    _exit(7);
  }
  int status;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) return 1;
  if (write(1, "alive\n", 6) != 6) return 1;
  _exit(5);
}

// How programs ask whether the kernel supports filters, and a filter that is refused.
static int refused(void) {
  struct sock_fprog empty = {.len = 0, .filter = NULL};
  int failures = 0;
  failures += prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT;
  failures += syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  failures += prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &empty) == -1 && errno == EINVAL;
  failures += syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &empty) == -1 && errno == EINVAL;
  read_many(kAfter);
  if (failures != 4 || write(1, "alive\n", 6) != 6) return 1;
  return 5;
}

static int none(void) {
  char name[16] = "";
  prctl(PR_SET_NAME, "renamed", 0, 0, 0);
  prctl(PR_GET_NAME, name, 0, 0, 0);
  read_many(kAfter);
  if (strcmp(name, "renamed") != 0 || write(1, "alive\n", 6) != 6) return 1;
  return 5;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  file = open(argv[2], O_RDONLY);
  if (file < 0) return 2;
  read_many(kBefore);
  static const struct {
    const char* name;
    int (*run)(void);
  } kModes[] = {
      {"strict", strict},           {"by_prctl", by_prctl},     {"by_seccomp", by_seccomp}, {"all_threads", all_threads},
      {"with_child", with_child}, {"refused", refused}, {"none", none},
  };
  for (size_t i = 0; i < sizeof(kModes) / sizeof(*kModes); ++i) {
    if (strcmp(kModes[i].name, argv[1]) == 0) return kModes[i].run();
  }
  return 2;
}
