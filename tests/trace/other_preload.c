// Another tool, preloaded before or after ours: it counts reads with the same technique, and prints
// the count at the end.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long count;

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  static ssize_t (*next)(int, void*, size_t, off_t);
  if (next == NULL) next = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
  return next(fd, buffer, size, offset);
}

__attribute__((destructor)) static void tell(void) {
  char text[64];
  const int size = snprintf(text, sizeof(text), "other tool: %ld\n", count);
  if (write(2, text, (size_t)size) != size) abort();
}
