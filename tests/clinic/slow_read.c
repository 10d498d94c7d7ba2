// slow_read: a preload library that makes reads slow, as a busy disk or a distant server does.
//
// It delays read() and pread() of the files below CLINIC_SLOW_FILES. A read takes CLINIC_SLOW_DELAY_US longer, and all
// processes together start at most one read every CLINIC_SLOW_GAP_US: the first is latency, the second a limit of reads
// per second. CLINIC_SLOW_STATE is a file of 8 bytes in which the processes share the time of the next read.
//
// Preload it after the tracer, so that the tracer calls it and records the slow calls.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t* next_read_ns;  // null: this process has no slow files
static const char* slow_files;
static int64_t delay_ns;
static int64_t gap_ns;

static int64_t nanoseconds_of(const char* variable) {
  const char* text = getenv(variable);
  return text == NULL ? 0 : atoll(text) * 1000;
}

__attribute__((constructor)) static void prepare(void) {
  const char* state = getenv("CLINIC_SLOW_STATE");
  slow_files = getenv("CLINIC_SLOW_FILES");
  if (state == NULL || slow_files == NULL) return;
  delay_ns = nanoseconds_of("CLINIC_SLOW_DELAY_US");
  gap_ns = nanoseconds_of("CLINIC_SLOW_GAP_US");
  const int fd = open(state, O_RDWR);
  if (fd < 0) return;
  void* memory = mmap(NULL, sizeof *next_read_ns, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory != MAP_FAILED) next_read_ns = memory;
}

static int is_slow(int fd) {
  char link[64];
  char path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strncmp(path, slow_files, strlen(slow_files)) == 0;
}

static void wait_for_turn(int fd) {
  if (next_read_ns == NULL || !is_slow(fd)) return;
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now_ns = time.tv_sec * 1000000000LL + time.tv_nsec;
  int64_t next_ns = *next_read_ns;
  int64_t turn_ns;
  do {
    turn_ns = (next_ns > now_ns ? next_ns : now_ns) + gap_ns;
  } while (!__atomic_compare_exchange_n((int64_t*)next_read_ns, &next_ns, turn_ns, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
  const int64_t end_ns = turn_ns + delay_ns;
  const struct timespec end = {end_ns / 1000000000LL, end_ns % 1000000000LL};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) {
  }
}

ssize_t read(int fd, void* buffer, size_t count) {
  static ssize_t (*real)(int, void*, size_t);
  if (real == NULL) real = (ssize_t(*)(int, void*, size_t))dlsym(RTLD_NEXT, "read");
  wait_for_turn(fd);
  return real(fd, buffer, count);
}

ssize_t pread64(int fd, void* buffer, size_t count, off64_t offset) {
  static ssize_t (*real)(int, void*, size_t, off64_t);
  if (real == NULL) real = (ssize_t(*)(int, void*, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
  wait_for_turn(fd);
  return real(fd, buffer, count, offset);
}

ssize_t pread(int fd, void* buffer, size_t count, off_t offset) { return pread64(fd, buffer, count, offset); }
