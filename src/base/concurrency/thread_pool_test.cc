#include "base/concurrency/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <new>
#include <stdexcept>

namespace millrace {
namespace {

using namespace std::chrono_literals;

TEST(ThreadPool, RunsEverythingSubmitted) {
  std::atomic<int> done = 0;
  {
    ThreadPool pool(3, 4);
    for (int i = 0; i < 1000; ++i) pool.submit([&] { ++done; });
  }
  EXPECT_EQ(done, 1000);
}

TEST(ThreadPool, WaitIdleWaitsForTheLastTask) {
  ThreadPool pool(2);
  std::atomic<int> done = 0;
  for (int i = 0; i < 10; ++i) {
    pool.submit([&] {
      std::this_thread::sleep_for(2ms);
      ++done;
    });
  }
  EXPECT_TRUE(pool.wait_idle().ok());
  EXPECT_EQ(done, 10);
  EXPECT_TRUE(pool.wait_idle().ok());
}

TEST(ThreadPool, WaitIdleReturnsTheExceptionOfATask) {
  ThreadPool pool(2);
  std::atomic<int> done = 0;
  pool.submit([] { throw std::bad_alloc(); });
  for (int i = 0; i < 10; ++i) pool.submit([&] { ++done; });
  EXPECT_EQ(pool.wait_idle().error().message(), "there is not enough memory");
  EXPECT_EQ(done, 10);
  EXPECT_TRUE(pool.wait_idle().ok()) << "an error is returned once";
}

TEST(ThreadPool, ParallelForReturnsAnException) {
  ThreadPool pool(3);
  const auto throws_at = [&](size_t index, const std::exception_ptr& exception) {
    return pool.parallel_for(1000, [&](size_t i) -> Status {
      if (i == index) std::rethrow_exception(exception);
      return {};
    });
  };
  for (const size_t index : {0, 500, 999}) {
    const Status status = throws_at(index, std::make_exception_ptr(std::bad_alloc()));
    EXPECT_EQ(status.error().code(), Errc::kExhausted);
    EXPECT_EQ(status.error().message(), "there is not enough memory");
  }
  EXPECT_EQ(throws_at(7, std::make_exception_ptr(std::length_error("too long"))).error().message(),
            "too long");
  EXPECT_EQ(throws_at(7, std::make_exception_ptr(1)).error().message(),
            "an unknown exception was thrown");
}

// In a process of its own, since the limit is hard to undo.
TEST(ThreadPool, WorksIfNoThreadCanBeStarted) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    // Root has no limit on threads.
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(77);
    ThreadPool pool(4);
    int done = 0;
    pool.submit([&] { ++done; });
    const Status status = pool.parallel_for(3, [&](size_t) -> Status {
      ++done;
      return {};
    });
    _exit(status.ok() && pool.wait_idle().ok() && done == 4 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ThreadPool, ParallelForVisitsEachIndexOnce) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> visits(10'000);
  ASSERT_TRUE(pool.parallel_for(visits.size(),
                                [&](size_t i) -> Status {
                                  ++visits[i];
                                  return {};
                                })
                  .ok());
  for (const auto& count : visits) EXPECT_EQ(count, 1);
}

TEST(ThreadPool, ParallelForOfNothingReturns) {
  ThreadPool pool(2);
  EXPECT_TRUE(pool.parallel_for(0, [](size_t) -> Status { return {}; }).ok());
}

TEST(ThreadPool, ParallelForReturnsTheErrorAndStartsNoFurtherWork) {
  ThreadPool pool(2);
  std::atomic<int> calls = 0;
  const Status status = pool.parallel_for(1'000'000, [&](size_t i) -> Status {
    ++calls;
    if (i == 5) return fail(Errc::kIo, "file {} is bad", i);
    if (i > 5)
      std::this_thread::sleep_for(1ms);  // however late the fifth is, all would take longer
    return {};
  });
  EXPECT_EQ(status.error().message(), "file 5 is bad");
  EXPECT_LT(calls, 1'000'000);
}

TEST(ThreadPool, ParallelForMayBeNestedOnABusyPool) {
  ThreadPool pool(1, 1);
  std::atomic<int> done = 0;
  ASSERT_TRUE(pool.parallel_for(4,
                                [&](size_t) {
                                  return pool.parallel_for(4, [&](size_t) -> Status {
                                    ++done;
                                    return {};
                                  });
                                })
                  .ok());
  EXPECT_EQ(done, 16);
}

}  // namespace
}  // namespace millrace
