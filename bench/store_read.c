/* Reads whole files as a simple C program does: open, fstat, read to the end, close.
 *
 *   bench_store_read LIST THREADS SEED SECONDS
 *
 * LIST names a file with one path per line. Passes over all of them, each in a new random order and
 * divided among the threads, go on until SECONDS have passed. Prints the number of files and the
 * seconds of each pass but the first: on a machine with other load, the fastest pass is the one that
 * was not disturbed. With SECONDS below 0 there is one pass only. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { kBufferBytes = 2 << 20 };

struct work {
  pthread_t thread;
  char** paths;
  size_t count;
  uint64_t seed;
};

static pthread_barrier_t barrier;
static bool is_last;  /* written by one thread between two barriers */
static double seconds;
static size_t file_count;

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

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void shuffle(struct work* work) {
  for (size_t i = work->count; i > 1; --i) {
    const size_t other = next_random(&work->seed) % i;
    char* path = work->paths[i - 1];
    work->paths[i - 1] = work->paths[other];
    work->paths[other] = path;
  }
}

static void* run(void* argument) {
  struct work* work = argument;
  char* buffer = aligned_alloc(4096, kBufferBytes);
  if (buffer == NULL) abort();
  memset(buffer, 1, kBufferBytes);
  const double begin = now();
  for (int pass = 0; !is_last; ++pass) {
    shuffle(work);
    pthread_barrier_wait(&barrier);
    const double pass_begin = now();
    for (size_t i = 0; i < work->count; ++i) read_file(work->paths[i], buffer);
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

static char** read_list(const char* path) {
  FILE* file = fopen(path, "r");
  if (file == NULL) stop("open", path);
  char** paths = NULL;
  char* line = NULL;
  size_t room = 0;
  for (ssize_t size; (size = getline(&line, &room, file)) > 0;) {
    if (line[size - 1] == '\n') line[size - 1] = '\0';
    paths = realloc(paths, (file_count + 1) * sizeof(*paths));
    if (paths == NULL || (paths[file_count] = strdup(line)) == NULL) abort();
    ++file_count;
  }
  free(line);
  fclose(file);
  return paths;
}

int main(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: bench_store_read LIST THREADS SEED SECONDS\n");
    return 2;
  }
  char** paths = read_list(argv[1]);
  const size_t threads = strtoul(argv[2], NULL, 10);
  struct work* works = calloc(threads, sizeof(*works));
  if (threads == 0 || file_count < threads || works == NULL) return 2;
  seconds = strtod(argv[4], NULL);
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (size_t i = 0; i < threads; ++i) {
    const size_t begin = file_count * i / threads, end = file_count * (i + 1) / threads;
    works[i] = (struct work){.paths = paths + begin,
                             .count = end - begin,
                             .seed = strtoull(argv[3], NULL, 10) * 8191 + i + 1};
    if (pthread_create(&works[i].thread, NULL, run, &works[i]) != 0) stop("start", "a thread");
  }
  for (size_t i = 0; i < threads; ++i) pthread_join(works[i].thread, NULL);
  return 0;
}
