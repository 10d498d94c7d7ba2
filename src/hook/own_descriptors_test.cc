#include "hook/own_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "hook/syscall.h"

namespace millrace::hook {
namespace {

TEST(OwnDescriptors, WorkHasADescriptorWhenTheProgramHasNoneLeft) {
  // In a child, so that the limit does not affect other tests.
  const pid_t child = fork();
  if (child == 0) {
    const rlimit few = {8, 8};
    setrlimit(RLIMIT_NOFILE, &few);
    while (open("/dev/null", O_RDONLY) >= 0) {
    }
    int fd = -1;
    if (errno != EMFILE) _exit(2);
    with_own_descriptors(
        [](void* result) { *static_cast<int*>(result) = sys_open("/dev/null", O_RDONLY); }, &fd);
    if (fd < 0) _exit(3);
    if (fcntl(0, F_GETFD) < 0) _exit(4);  // our descriptors are still open
    if (open("/dev/null", O_RDONLY) >= 0) _exit(5);
    if (waitpid(-1, nullptr, 0) != -1 || errno != ECHILD) _exit(6);  // no child to wait for
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(OwnDescriptors, MemoryMappedByTheWorkStaysMapped) {
  void* memory = nullptr;
  ASSERT_TRUE(with_own_descriptors(
      [](void* result) {
        *static_cast<void**>(result) =
            sys_mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      },
      &memory));
  ASSERT_NE(memory, nullptr);
  *static_cast<char*>(memory) = 'x';
  sys_munmap(memory, 4096);
}

}  // namespace
}  // namespace millrace::hook
