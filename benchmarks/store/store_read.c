/* Reads whole files as a simple C program does: open, fstat, read to the end, close.
 *
 *   bench_store_read LIST THREADS SEED SECONDS [copy]
 *
 * LIST names a file with one path per line. Passes over all of them, each in a new random order (with
 * SEED 0 in that of the list) and divided among the threads, go on until SECONDS have passed. Prints the number of files and the
 * seconds of each pass but the first: on a machine with other load, the fastest pass is the one that
 * was not disturbed. With SECONDS below 0 there is one pass only.
 *
 * With `copy`, nothing is opened: the same bytes are copied from one mapped file in memory. That is
 * what reading would take if only the memory took time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kBufferBytes = 2 << 20 };

struct file {
  char* path;
  const char* bytes; /* with `copy`; otherwise null */
  size_t size;
};

struct work {
  pthread_t thread;
  struct file* files;
  size_t count;
  uint64_t seed;
};

static pthread_barrier_t barrier;
static bool is_last;  /* written by one thread between two barriers */
static double seconds;
static size_t file_count;
static bool is_shuffled;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void stop(const char* what, const char* path) {
  fprintf(stderr, "bench_store_read: cannot %s %s: %s\n", what, path, strerror(errno));
  exit(1);
}

static uint64_t read_file(const char* path, char* buffer) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) stop("open", path);
  struct stat status;
  if (fstat(fd, &status) != 0) stop("look at", path);
  uint64_t bytes = 0;
  for (;;) {
    const ssize_t size = read(fd, buffer, kBufferBytes);
    if (size < 0) stop("read", path);
    if (size == 0) break;
    bytes += (uint64_t)size;
  }
  close(fd);
  if (bytes != (uint64_t)status.st_size) stop("read all of", path);
  return bytes;
}

static void use_file(const struct file* file, char* buffer) {
  if (file->bytes == NULL) {
    read_file(file->path, buffer);
  } else {
    memcpy(buffer, file->bytes, file->size);
    __asm__ volatile("" : : "r"(buffer) : "memory");
  }
}

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void shuffle(struct work* work) {
  for (size_t i = work->count; i > 1; --i) {
    const size_t other = next_random(&work->seed) % i;
    const struct file file = work->files[i - 1];
    work->files[i - 1] = work->files[other];
    work->files[other] = file;
  }
}

static void* run(void* argument) {
  struct work* work = argument;
  char* buffer = aligned_alloc(4096, kBufferBytes);
  if (buffer == NULL) abort();
  memset(buffer, 1, kBufferBytes);
  const double begin = now();
  for (int pass = 0; !is_last; ++pass) {
    if (is_shuffled) shuffle(work);
    pthread_barrier_wait(&barrier);
    const double pass_begin = now();
    for (size_t i = 0; i < work->count; ++i) use_file(&work->files[i], buffer);
    if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
      const double end = now();
      if (pass > 0) printf("%zu %.6f\n", file_count, end - pass_begin);
      is_last = seconds < 0 || (pass > 0 && end - begin > seconds);
    }
    pthread_barrier_wait(&barrier);
  }
  free(buffer);
  return NULL;
}

static struct file* read_list(const char* path) {
  FILE* file = fopen(path, "r");
  if (file == NULL) stop("open", path);
  struct file* files = NULL;
  char* line = NULL;
  size_t room = 0;
  for (ssize_t size; (size = getline(&line, &room, file)) > 0;) {
    if (line[size - 1] == '\n') line[size - 1] = '\0';
    files = realloc(files, (file_count + 1) * sizeof(*files));
    if (files == NULL) abort();
    files[file_count] = (struct file){.path = strdup(line)};
    if (files[file_count].path == NULL) abort();
    ++file_count;
  }
  free(line);
  fclose(file);
  return files;
}

/* Puts the bytes of all files into one file in memory, each at a multiple of 64 bytes. */
static void place_files(struct file* files) {
  char* buffer = malloc(kBufferBytes);
  const int fd = memfd_create("files", MFD_CLOEXEC);
  if (buffer == NULL || fd < 0) abort();
  size_t end = 0;
  for (size_t i = 0; i < file_count; ++i) {
    files[i].size = read_file(files[i].path, buffer);
    if (files[i].size > kBufferBytes) stop("copy such a long file as", files[i].path);
    if (pwrite(fd, buffer, files[i].size, (off_t)end) != (ssize_t)files[i].size) abort();
    files[i].bytes = (const char*)end;
    end += (files[i].size + 63) / 64 * 64;
  }
  const char* base = mmap(NULL, end, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED) abort();
  for (size_t i = 0; i < file_count; ++i) files[i].bytes = base + (size_t)files[i].bytes;
  free(buffer);
}

int main(int argc, char** argv) {
  if (argc != 5 && (argc != 6 || strcmp(argv[5], "copy") != 0)) {
    fprintf(stderr, "usage: bench_store_read LIST THREADS SEED SECONDS [copy]\n");
    return 2;
  }
  struct file* files = read_list(argv[1]);
  if (argc == 6) place_files(files);
  const size_t threads = strtoul(argv[2], NULL, 10);
  struct work* works = calloc(threads, sizeof(*works));
  if (threads == 0 || file_count < threads || works == NULL) return 2;
  seconds = strtod(argv[4], NULL);
  is_shuffled = strtoull(argv[3], NULL, 10) != 0;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (size_t i = 0; i < threads; ++i) {
    const size_t begin = file_count * i / threads, end = file_count * (i + 1) / threads;
    works[i] = (struct work){.files = files + begin,
                             .count = end - begin,
                             .seed = strtoull(argv[3], NULL, 10) * 8191 + i + 1};
    if (pthread_create(&works[i].thread, NULL, run, &works[i]) != 0) stop("start", "a thread");
  }
  for (size_t i = 0; i < threads; ++i) pthread_join(works[i].thread, NULL);
  return 0;
}
