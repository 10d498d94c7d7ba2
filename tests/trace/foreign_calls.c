// Reads with the system calls of 32-bit programs, which a 64-bit program may use too. Usage:
// foreign_calls, in a directory with a file `data`. Exits with 77 if the kernel does not have these
// calls.
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

// Below 4 GiB, the limit of such calls: the program is linked there.
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
