#include "base/system/subprocess.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "base/system/clock.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;

TEST(Subprocess, KeepsOutputAndExitCode) {
  const auto result = run_subprocess({"sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->output, "out\nerr\n");
  EXPECT_EQ(result->exit_code, 3);
}

TEST(Subprocess, ReportsASignalLikeAShell) {
  EXPECT_EQ(run_subprocess({"sh", "-c", "kill -TERM $$"})->exit_code, 143);
}

TEST(Subprocess, AnExitCodeLostToIgnoredSigchldIsNotSuccess) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const auto result = run_subprocess({"true"});
  signal(SIGCHLD, before);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit_code, 255);
}

TEST(Subprocess, ReplacesAndAddsVariables) {
  const auto result = run_subprocess({"sh", "-c", "echo $HOME $NEW"},
                                     {.environment = {{"HOME", "here"}, {"NEW", "there"}}});
  EXPECT_EQ(result->output, "here there\n");
}

TEST(Subprocess, RemovesVariablesByPrefix) {
  const auto result = run_subprocess(
      {"sh", "-c", "echo \"$AN_OLD:$AN_OTHER\""},
      {.environment = {{"AN_OTHER", "kept"}, {"AN_OLD", "new"}}, .removed_prefixes = {"AN_O"}});
  EXPECT_EQ(result->output, "new:kept\n");
  setenv("AN_OLD", "1", 1);
  const auto removed =
      run_subprocess({"sh", "-c", "echo \"$AN_OLD\""}, {.removed_prefixes = {"AN_O"}});
  unsetenv("AN_OLD");
  EXPECT_EQ(removed->output, "\n");
}

TEST(Subprocess, NamesAMissingProgram) {
  const auto result = run_subprocess({"no-such-program"});
  EXPECT_EQ(result.error().code(), Errc::kNotFound);
  EXPECT_EQ(result.error().message(), "no-such-program: is not in PATH");
}

TEST(Subprocess, AProgramThatCannotBeStartedSaysWhy) {
  EXPECT_EQ(run_subprocess({"/no/such/program"}).error().message(),
            "/no/such/program: cannot be started: no such file or directory");
  EXPECT_EQ(run_subprocess({"/dev/null"}).error().code(), Errc::kPermission);
}

TEST(Subprocess, KillsTheWholeGroupAtTheDeadline) {
  const auto start = monotonic_now();
  const auto result = run_subprocess({"sh", "-c", "sleep 60 | sleep 60"}, {.timeout = 100ms});
  EXPECT_EQ(result.error().code(), Errc::kTimeout);
  EXPECT_LT(monotonic_now() - start, 30s);
}

TEST(Subprocess, AProgramThatClosedItsOutputHasADeadlineToo) {
  const auto result = run_subprocess({"sh", "-c", "exec >&- 2>&-; sleep 60"}, {.timeout = 100ms});
  EXPECT_EQ(result.error().code(), Errc::kTimeout);
}

TEST(Subprocess, IsKilledWhenItIsCancelled) {
  std::atomic<bool> cancelled = false;
  std::thread cancels([&] {
    std::this_thread::sleep_for(50ms);
    cancelled = true;
  });
  const auto result = run_subprocess({"sleep", "600"}, {.timeout = 1h, .cancelled = &cancelled});
  cancels.join();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), Errc::kCancelled);
}

TEST(Subprocess, LimitsTheOutput) {
  const auto result =
      run_subprocess({"sh", "-c", "yes | head -c 1000000"}, {.output_limit_bytes = 100});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->output.size(), 100u);
  EXPECT_EQ(result->exit_code, 0);
}

TEST(FindInPath, FindsWhatAShellWouldFind) {
  EXPECT_NE(find_in_path("sh"), "");
  EXPECT_EQ(access(find_in_path("sh").c_str(), X_OK), 0);
  EXPECT_EQ(find_in_path("no-such-program"), "");
}

}  // namespace
}  // namespace millrace
