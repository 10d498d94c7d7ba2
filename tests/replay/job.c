// A small job for replay_test.py: two threads that read, write, list and rename files, and a child.
//
// Usage: job DIRECTORY, with the files data/0 to data/7 in it
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* base;
static char block[1 << 16];

static const char* path(char* out, const char* format, int number) {
  char below[100];
  snprintf(below, sizeof below, format, number);
  snprintf(out, 4096, "%s/%s", base, below);
  return out;
}

static void need(int ok, const char* what) {
  if (ok) return;
  perror(what);
  exit(1);
}

static void* reader(void* unused) {
  char name[4096];
  struct stat status;
  for (int i = 0; i < 8; ++i) {
    need(stat(path(name, "data/%d", i), &status) == 0, "stat");
    const int fd = open(name, O_RDONLY);
    need(fd >= 0, "open");
    need(fstat(fd, &status) == 0, "fstat");
    while (read(fd, block, 3000) > 0) {
    }
    need(lseek(fd, 100, SEEK_SET) == 100, "lseek");
    need(read(fd, block, 50) == 50, "read");
    need(pread(fd, block, 64, 10 * i) == 64, "pread");
    struct iovec parts[2] = {{block, 10}, {block + 10, 20}};
    need(readv(fd, parts, 2) == 30, "readv");
    close(fd);
  }
  need(open(path(name, "data/%d", 99), O_RDONLY) < 0, "open");
  return unused;
}

static void* writer(void* unused) {
  char name[4096], final[4096];
  need(mkdir(path(name, "out", 0), 0777) == 0, "mkdir");
  for (int i = 0; i < 4; ++i) {
    const int fd = open(path(name, "out/%d.tmp", i), O_RDWR | O_CREAT | O_TRUNC, 0666);
    need(fd >= 0, "open");
    for (int part = 0; part < 5; ++part) need(write(fd, block, 5000) == 5000, "write");
    need(pwrite(fd, block, 100, 40000) == 100, "pwrite");
    need(fsync(fd) == 0, "fsync");
    need(ftruncate(fd, 39000) == 0, "ftruncate");
    close(fd);
    need(rename(name, path(final, "out/%d", i)) == 0, "rename");
  }
  FILE* log = fopen(path(name, "out/log", 0), "w");
  need(log != NULL, "fopen");
  for (int i = 0; i < 100; ++i) fprintf(log, "step %02d\n", i);
  fclose(log);
  log = fopen(name, "r");
  while (fread(block, 1, 100, log) == 100) {
  }
  fclose(log);
  need(unlink(path(name, "out/%d", 3)) == 0, "unlink");
  return unused;
}

static void list(void) {
  char name[4096];
  DIR* directory = opendir(path(name, "data", 0));
  need(directory != NULL, "opendir");
  while (readdir(directory) != NULL) {
  }
  closedir(directory);
}

static void map_one(void) {
  char name[4096];
  const int fd = open(path(name, "data/%d", 7), O_RDONLY);
  volatile char* mapped = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
  need(mapped != MAP_FAILED, "mmap");
  block[0] = (char)(mapped[0] + mapped[5000]);
  munmap((void*)mapped, 8192);
  close(fd);
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  base = arguments[1];
  list();
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, reader, NULL);
  pthread_create(&threads[1], NULL, writer, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  map_one();
  char name[4096];
  const int shared = open(path(name, "data/%d", 0), O_RDONLY);
  const pid_t child = fork();
  if (child == 0) {
    need(pread(shared, block, 200, 0) == 200, "pread");
    _exit(0);
  }
  waitpid(child, NULL, 0);
  close(shared);
  return 0;
}
