#include "comm/own_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <utility>

namespace millrace::comm {
namespace {

OwnFile open_null() {
  const NoFork no_fork;
  return OwnFile(open("/dev/null", O_RDWR | O_CLOEXEC), no_fork);
}

bool is_open_here(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// The exit code of a child that runs `check`.
template <typename Check>
int in_child(Check check) {
  const pid_t child = fork();
  if (child == 0) _exit(check());
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(OwnFile, IsClosedInAChildButNotInItsParent) {
  const OwnFile file = open_null();
  ASSERT_TRUE(file.is_open());
  EXPECT_EQ(in_child([&] { return is_open_here(file.fd()) ? 1 : 0; }), 0);
  EXPECT_TRUE(is_open_here(file.fd()));
}

TEST(OwnFile, IsClosedInAChildAfterAMove) {
  OwnFile first = open_null();
  OwnFile file;
  file = std::move(first);
  EXPECT_EQ(in_child([&] { return is_open_here(file.fd()) ? 1 : 0; }), 0);
}

TEST(OwnFile, DestructorClosesNothingInAChild) {
  auto file = std::make_unique<OwnFile>(open_null());
  EXPECT_EQ(in_child([&] {
              const int fd = file->fd();
              const OwnFile again = open_null();  // gets the lowest free number
              if (again.fd() != fd) return 2;
              file.reset();
              return is_open_here(again.fd()) ? 0 : 1;
            }),
            0);
}

TEST(OwnFile, IsForgottenOnceDestroyed) {
  int fd = -1;
  {
    const OwnFile file = open_null();
    fd = file.fd();
  }
  EXPECT_FALSE(is_open_here(fd));
  const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
  ASSERT_EQ(other, fd);
  EXPECT_EQ(in_child([&] { return is_open_here(other) ? 0 : 1; }), 0);
  close(other);
}

TEST(OwnFile, WithoutADescriptorIsNotOpen) {
  const NoFork no_fork;
  EXPECT_FALSE(OwnFile(-1, no_fork).is_open());
}

}  // namespace
}  // namespace millrace::comm
