// slow_storage: a preload library that makes reads and fsync slow, as a busy disk or a distant server does.
//
// It delays calls for the files below CLINIC_SLOW_FILES. A read takes CLINIC_SLOW_DELAY_US longer, an fsync
// CLINIC_SLOW_SYNC_US. All processes together start at most one read every CLINIC_SLOW_GAP_US: this limits the reads per
// second. CLINIC_SLOW_STATE is a file of 8 bytes in which the processes share the time of the next read.
//
// Preload it after the tracer, so that the tracer calls it and records the slow calls. It calls only what comes after it:
// the tracer has functions of the same names, and would call it again.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int64_t* next_read_ns;  // null: this process has no slow files
static const char* slow_files;
static int64_t delay_ns;
static int64_t sync_ns;
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
  sync_ns = nanoseconds_of("CLINIC_SLOW_SYNC_US");
  gap_ns = nanoseconds_of("CLINIC_SLOW_GAP_US");
  const int fd = NEXT(open)(state, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* memory = NEXT(mmap)(NULL, sizeof *next_read_ns, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  NEXT(close)(fd);
  if (memory != MAP_FAILED) next_read_ns = memory;
}

static int is_slow(int fd) {
  if (next_read_ns == NULL) return 0;
  char link[64];
  char path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = NEXT(readlink)(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strncmp(path, slow_files, strlen(slow_files)) == 0;
}

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void sleep_until(int64_t end_ns) {
  const struct timespec end = {end_ns / 1000000000LL, end_ns % 1000000000LL};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) {
  }
}

static void delay_read(int fd) {
  if (!is_slow(fd)) return;
  const int64_t begin_ns = now_ns();
  int64_t next_ns = __atomic_load_n(next_read_ns, __ATOMIC_SEQ_CST);
  int64_t turn_ns;
  do {
    turn_ns = (next_ns > begin_ns ? next_ns : begin_ns) + gap_ns;
  } while (!__atomic_compare_exchange_n(next_read_ns, &next_ns, turn_ns, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  sleep_until(turn_ns + delay_ns);
}

ssize_t read(int fd, void* buffer, size_t count) {
  delay_read(fd);
  return NEXT(read)(fd, buffer, count);
}

ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  delay_read(fd);
  return NEXT(pread)(fd, buffer, count, offset);
}

ssize_t pread64(int fd, void* buffer, size_t count, off64_t offset) {
  delay_read(fd);
  return NEXT(pread64)(fd, buffer, count, offset);
}

ssize_t preadv2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  delay_read(fd);
  return NEXT(preadv2)(fd, parts, count, offset, flags);
}

ssize_t preadv64v2(int fd, const struct iovec* parts, int count, off64_t offset, int flags) {
  delay_read(fd);
  return NEXT(preadv64v2)(fd, parts, count, offset, flags);
}

int fsync(int fd) {
  if (is_slow(fd)) sleep_until(now_ns() + sync_ns);
  return NEXT(fsync)(fd);
}
