#include "base/concurrency/thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <utility>

namespace millrace {
namespace {

sigset_t mask_of_this_thread() {
  sigset_t mask;
  sigemptyset(&mask);
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  return mask;
}

sigset_t mask_of_a_started_thread() {
  sigset_t mask;
  sigemptyset(&mask);
  auto thread = start_thread("test", [&] { mask = mask_of_this_thread(); });
  EXPECT_TRUE(thread.ok());
  if (thread.ok()) thread->join();
  return mask;
}

TEST(StartThread, BlocksTheSignalsOfTheProgram) {
  const sigset_t mask = mask_of_a_started_thread();
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGPROF, SIGUSR1}) {
    EXPECT_EQ(sigismember(&mask, signal), 1) << signal;
  }
}

TEST(StartThread, DoesNotBlockFaults) {
  const sigset_t mask = mask_of_a_started_thread();
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    EXPECT_EQ(sigismember(&mask, signal), 0) << signal;
  }
}

TEST(StartThread, RestoresTheSignalMaskOfTheCaller) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR2);
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, &one, &before);
  static_cast<void>(mask_of_a_started_thread());
  const sigset_t after = mask_of_this_thread();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  for (int signal = 1; signal < 32; ++signal) {
    EXPECT_EQ(sigismember(&after, signal), signal == SIGUSR2 ? 1 : 0) << signal;
  }
}

TEST(StartThread, NamesTheThreadAndTruncatesALongName) {
  for (const auto& [name, seen] :
       {std::pair("mr-short", "mr-short"), std::pair("mr-a-name-too-long", "mr-a-name-too-l")}) {
    char told[32] = {};
    std::promise<void> may_end;
    auto thread = start_thread(name, [&] { may_end.get_future().wait(); });
    ASSERT_TRUE(thread.ok());
    pthread_getname_np(thread->native_handle(), told, sizeof(told));
    may_end.set_value();
    thread->join();
    EXPECT_STREQ(told, seen);
  }
}

// In a process of its own, since the limit is hard to undo.
TEST(StartThread, FailsWithAMessageIfThereAreNoMoreThreads) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    // Root has no limit on threads.
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(77);
    const auto thread = start_thread("test", [] {});
    if (thread.ok()) _exit(1);
    _exit(thread.error().message().starts_with("cannot start a thread") ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(AskForShortSlices, KeepsThePriorityOfTheThread) {
  int before = 0;
  int after = -1;
  auto thread = start_thread("test", [&] {
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 5);
    before = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
    ask_for_short_slices();
    after = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_EQ(before, 5);
  EXPECT_EQ(after, 5);
}

}  // namespace
}  // namespace millrace
