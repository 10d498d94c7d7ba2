// Makes calls in a signal handler on an alternate stack, and prints how many bytes of it were used.
// Usage: small_stack FILE. The stack has 8 KiB (more if the kernel's own frame is large), followed
// by unmapped memory: using more kills the program.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kUnused = 0x5a, kFrameMax = 4096 };
static const char* file;
static char* stack;
static size_t stack_size;
static char block[64];
static struct stat status;
static int fd = -1;
static int failed;

static void open_new(void) { fd = open(file, O_RDONLY); }
static void open_known(void) { fd = open(file, O_RDONLY); }
static void open_relative(void) { fd = open("././/small_stack.data", O_RDONLY | O_CREAT, 0600); }
static void open_missing(void) { failed |= open("/nowhere/at/all", O_RDONLY) != -1; }
static void open_refused(void) { failed |= open(file, O_RDONLY | O_TMPFILE) != -1; }
static void read_it(void) { failed |= read(fd, block, sizeof(block)) < 0; }
static void read_parts(void) {
  struct iovec parts[2] = {{block, 10}, {block, 10}};
  failed |= readv(fd, parts, 2) < 0;
}
static void ask(void) { failed |= stat(file, &status) != 0 || fstat(fd, &status) != 0; }
static void rename_missing(void) { failed |= rename("nowhere/a", "nowhere/b") != -1; }
static void go(void) { failed |= chdir("/") != 0 || access("tmp", R_OK) != 0; }
// More events than a ring holds: the ring is written to the log on this stack.
static void read_often(void) {
  for (int i = 0; i < 5000; ++i) failed |= pread(fd, block, 1, 0) < 0;
}
static void map_it(void) {
  void* memory = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE, fd, 0);
  failed |= memory == MAP_FAILED || munmap(memory, 1 << 20) != 0;
}
// A descriptor whose opening was not recorded.
static void read_unknown(void) { failed |= read(0, block, 1) < 0; }
static void close_it(void) { failed |= close(fd) != 0; }
// A forked child starts its recording here.
static void fork_and_read(void) {
  const pid_t child = fork();
  if (child == 0) _exit(pread(fd, block, 1, 0) < 0);
  failed |= child < 0;
}

static void (*volatile action)(void);
static void on_signal(int number) {
  (void)number;
  action();
}

static size_t used_by(void (*what)(void)) {
  memset(stack, kUnused, stack_size);
  action = what;
  raise(SIGUSR1);
  size_t unused = 0;
  while (unused < stack_size && stack[unused] == kUnused) ++unused;
  return stack_size - unused;
}

static void nothing(void) {}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  file = argv[1];
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t frame = getauxval(AT_MINSIGSTKSZ);
  stack_size = 8192;
  if (frame > kFrameMax) stack_size = (frame + 4096 + page - 1) / page * page;
  char* memory = mmap(NULL, stack_size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) return 2;
  stack = memory + page;
  const stack_t alternate = {.ss_sp = stack, .ss_size = stack_size};
  struct sigaction by_handler = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&alternate, NULL) != 0 || sigaction(SIGUSR1, &by_handler, NULL) != 0) return 2;
  static const struct {
    const char* name;
    void (*run)(void);
  } kActions[] = {
      {"open_new", open_new},     {"open_known", open_known},         {"open_relative", open_relative},
      {"open_missing", open_missing}, {"open_refused", open_refused}, {"read", read_it},
      {"readv", read_parts},      {"stat", ask},                      {"rename", rename_missing},
      {"read_unknown", read_unknown}, {"map", map_it},                {"read_often", read_often},
      {"fork", fork_and_read},    {"close", close_it},                {"chdir", go},
  };
  const size_t frame_only = used_by(nothing);
  for (size_t i = 0; i < sizeof(kActions) / sizeof(*kActions); ++i) {
    printf("%s %zu\n", kActions[i].name, used_by(kActions[i].run) - frame_only);
    fflush(stdout);
  }
  return failed ? 3 : 0;
}
