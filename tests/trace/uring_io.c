// Reads a file through io_uring.
//
// usage: uring_io FILE library   ten rings, each set up by liburing, used for ten reads and closed
//        uring_io FILE foreign   a ring made with a plain system call, open until the end
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int by_library(int file) {
  for (int i = 0; i < 10; ++i) {
    struct io_uring ring;
    if (io_uring_queue_init(8, &ring, 0) != 0) return 1;
    for (int k = 0; k < 10; ++k) {
      char buffer[100];
      struct io_uring_cqe* done;
      io_uring_prep_read(io_uring_get_sqe(&ring), file, buffer, sizeof(buffer), k * 100);
      const int submitted = k % 2 ? io_uring_submit(&ring) : io_uring_submit_and_wait(&ring, 1);
      if (submitted != 1 || io_uring_wait_cqe(&ring, &done) != 0 || done->res != 100) return 1;
      io_uring_cqe_seen(&ring, done);
    }
    io_uring_queue_exit(&ring);
  }
  return 0;
}

// Uses no function that can be hooked.
static long raw_setup(unsigned entries, struct io_uring_params* parameters) {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"((long)SYS_io_uring_setup), "D"((long)entries), "S"(parameters)
                   : "rcx", "r11", "memory");
  return result;
#else
  register long number __asm__("x8") = SYS_io_uring_setup;
  register long first __asm__("x0") = entries;
  register long second __asm__("x1") = (long)parameters;
  __asm__ volatile("svc 0" : "+r"(first) : "r"(number), "r"(second) : "memory");
  return first;
#endif
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int file = open(argv[1], O_RDONLY);
  if (file < 0) return 1;
  if (strcmp(argv[2], "library") == 0) return by_library(file);
  struct io_uring_params parameters;
  memset(&parameters, 0, sizeof(parameters));
  const long ring = raw_setup(4, &parameters);
  printf("%ld\n", ring);
  return ring < 0 ? 3 : 0;
}
