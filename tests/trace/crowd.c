// Many threads start processes at the same time, with fork and posix_spawn. Then a thread other
// than the first, which has ended, replaces the program. Usage: crowd FILE. Exits with 6.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 4, kChildren = 25, kReads = 10 };

static char* program;
static char* path;

static void read_times(size_t size) {
  char block[64];
  const int fd = open(path, O_RDONLY);
  for (int i = 0; i < kReads; ++i) {
    if (pread(fd, block, size, 0) != (ssize_t)size) abort();
  }
}

static pid_t start(int by_spawn) {
  char* const arguments[] = {program, path, "leaf", NULL};
  pid_t child = 0;
  if (by_spawn) {
    if (posix_spawn(&child, program, NULL, NULL, arguments, environ) != 0) abort();
    return child;
  }
  child = fork();
  if (child == 0) {
    execv(program, arguments);
    _exit(9);
  }
  return child;
}

static void* parent(void* argument) {
  (void)argument;
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = start(i % 2);
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 5)
      abort();
  }
  return NULL;
}

static void* reader(void* argument) {
  (void)argument;
  char block[16];
  const int fd = open(path, O_RDONLY);
  for (;;) {
    if (pread(fd, block, 16, 0) != 16) abort();
  }
}

static void* successor(void* argument) {
  (void)argument;
  char* const arguments[] = {program, path, "last", NULL};
  usleep(2000);
  execv(program, arguments);
  abort();
}

int main(int argc, char** argv) {
  program = argv[0];
  path = argv[1];
  if (argc > 2) {
    const int is_leaf = strcmp(argv[2], "leaf") == 0;
    read_times(is_leaf ? 32 : 64);
    return is_leaf ? 5 : 6;
  }
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, parent, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, reader, NULL);
  pthread_create(&threads[0], NULL, successor, NULL);
  pthread_exit(NULL);
}
