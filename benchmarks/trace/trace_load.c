// The programs that benchmarks/trace/trace_costs.py traces. Usage: bench_trace_load MODE PATH COUNT [N].
// Prints the CPU time of the measured part in nanoseconds.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kBlock = 4096 };

static int fd;
static uint64_t blocks;
static long per_thread;

static double cpu_ns(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e9 +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e3;
}

static void* random_reads(void* argument) {
  uint64_t state = (uint64_t)(uintptr_t)argument * 0x9e3779b97f4a7c15u + 1;
  char* buffer = aligned_alloc(kBlock, kBlock);
  for (long i = 0; i < per_thread; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if (pread(fd, buffer, kBlock, (off_t)(state % blocks * kBlock)) != kBlock) abort();
  }
  free(buffer);
  return NULL;
}

static void preads(const char* path, long count, long threads) {
  struct stat status;
  fd = open(path, O_RDONLY);
  if (fd < 0 || fstat(fd, &status) != 0) abort();
  blocks = (uint64_t)status.st_size / kBlock;
  per_thread = count / threads;
  pthread_t all[64];
  for (long i = 1; i < threads; ++i) {
    pthread_create(&all[i], NULL, random_reads, (void*)(uintptr_t)(i + 1));
  }
  random_reads((void*)(uintptr_t)1);
  for (long i = 1; i < threads; ++i) pthread_join(all[i], NULL);
}

// PATH.0, PATH.1, ... in turn, repeatedly.
static void open_read_close(const char* path, long count, long files) {
  char buffer[kBlock];
  char name[4200];
  for (long i = 0; i < count; ++i) {
    snprintf(name, sizeof(name), "%s.%ld", path, i % files);
    const int one = open(name, O_RDONLY);
    if (one < 0 || read(one, buffer, kBlock) != kBlock || close(one) != 0) abort();
  }
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const long count = atol(argv[3]);
  const long more = argc > 4 ? atol(argv[4]) : 1;
  const double before = cpu_ns();
  if (strcmp(argv[1], "preads") == 0) {
    preads(argv[2], count, more);
  } else if (strcmp(argv[1], "files") == 0) {
    open_read_close(argv[2], count, more);
  } else {
    return 2;
  }
  printf("%.0f\n", cpu_ns() - before);
  return 0;
}
