// Reads by the system calls of 32-bit programs, as a 64-bit one may. Usage: foreign_calls. Runs in
// a directory with a file `data`. Exits with 77 where the kernel has no such calls.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void unsupported(int number) {
  (void)number;
  _exit(77);
}

static long call32(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
  return result;
}

// Below 4 GiB, which is what such a call can reach: the program is linked there.
static char name[] = "data";
static char buffer[16];

int main(void) {
  signal(SIGSEGV, unsupported);
  const long fd = call32(5 /* open */, (long)name, 0, 0);
  if (fd < 0) return 77;
  for (int i = 0; i < 10; ++i) {
    if (call32(3 /* read */, fd, (long)buffer, 16) != 16) return 1;
  }
  return 0;
}
