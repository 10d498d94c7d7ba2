#include "comm/sigterm.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io/file.h"

namespace millrace::comm {
namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    out = File(ends[0]);
    in = File(ends[1]);
  }
  std::string read_all() const {
    char bytes[16];
    const ssize_t count = read(out.fd(), bytes, sizeof(bytes));
    return std::string(bytes, static_cast<size_t>(count < 0 ? 0 : count));
  }

  File in;
  File out;
};

using SignalHandler = void (*)(int);

SignalHandler current_handler() {
  struct sigaction current{};
  sigaction(SIGTERM, nullptr, &current);
  return current.sa_handler;
}

TEST(Sigterm, IsWrittenToThePipeWhileHeld) {
  const Pipe pipe;
  {
    const SigtermHeld held(pipe.in.fd());
    raise(SIGTERM);
    EXPECT_EQ(pipe.read_all(), "t");
  }
  EXPECT_EQ(current_handler(), SIG_DFL);
}

// multiprocessing's Process.terminate() does this, and so does torch's DataLoader.
TEST(Sigterm, SentToAForkedChildEndsOnlyTheChild) {
  const Pipe pipe;
  const SigtermHeld held(pipe.in.fd());
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted test leaves nothing behind
    while (true) pause();
  }
  ASSERT_EQ(kill(child, SIGTERM), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);  // if it hangs, ctest's time limit ends the test
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(pipe.read_all(), "");
}

TEST(Sigterm, AHandlerOfTheProgramIsKept) {
  const SignalHandler handler = [](int) {};
  signal(SIGTERM, handler);
  const Pipe pipe;
  {
    const SigtermHeld held(pipe.in.fd());
    EXPECT_EQ(current_handler(), handler);
  }
  EXPECT_EQ(current_handler(), handler);
  signal(SIGTERM, SIG_DFL);
}

TEST(Sigterm, AHandlerInstalledLaterIsKept) {
  const SignalHandler handler = [](int) {};
  const Pipe pipe;
  {
    const SigtermHeld held(pipe.in.fd());
    signal(SIGTERM, handler);
  }
  EXPECT_EQ(current_handler(), handler);
  signal(SIGTERM, SIG_DFL);
}

}  // namespace
}  // namespace millrace::comm
