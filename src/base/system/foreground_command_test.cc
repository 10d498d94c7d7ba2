#include "base/system/foreground_command.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace millrace {
namespace {

// The wait status of a shell command.
int status_of(const std::string& script, const std::vector<std::string>& environment = {}) {
  const SignalsHeld held(true);
  const auto child = start_command({"/bin/sh", "-c", script}, environment, held);
  EXPECT_TRUE(child.ok()) << child.error().message();
  if (!child.ok()) return -1;
  const SignalsPassedOn passed_on(*child);
  held.release();
  const auto status = wait_for_child(*child);
  EXPECT_TRUE(status.ok());
  return status.ok() ? *status : -1;
}

TEST(ForegroundCommand, EndsWithTheStatusOfTheCommand) {
  EXPECT_EQ(WEXITSTATUS(status_of("exit 7")), 7);
  const int killed = status_of("kill -9 $$");
  EXPECT_TRUE(WIFSIGNALED(killed));
  EXPECT_EQ(WTERMSIG(killed), SIGKILL);
}

TEST(ForegroundCommand, GetsOnlyTheEnvironmentGiven) {
  EXPECT_EQ(WEXITSTATUS(status_of("test \"$A\" = b && test -z \"$HOME\"", {"A=b"})), 0);
}

TEST(ForegroundCommand, GetsSignalsThatAreSentToUs) {
  // By a third process: a signal of the command itself is not sent back to it.
  const int status = status_of(
      "trap 'exit 5' USR1; /bin/sh -c \"kill -USR1 $PPID\"; while :; do sleep 0.01; done");
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

TEST(ForegroundCommand, SaysThatAProgramDoesNotExist) {
  const SignalsHeld held(true);
  const auto child = start_command({"no-such-program-of-ours"}, {}, held);
  ASSERT_FALSE(child.ok());
  EXPECT_EQ(child.error().code(), Errc::kNotFound);
}

}  // namespace
}  // namespace millrace
