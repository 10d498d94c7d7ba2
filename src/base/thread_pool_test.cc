#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>

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
  pool.wait_idle();
  EXPECT_EQ(done, 10);
  pool.wait_idle();
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

TEST(ThreadPool, ParallelForReturnsTheErrorAndBeginsNoFurtherWork) {
  ThreadPool pool(2);
  std::atomic<int> calls = 0;
  const Status status = pool.parallel_for(1'000'000, [&](size_t i) -> Status {
    ++calls;
    if (i == 5) return fail(Errc::kIo, "file {} is bad", i);
    if (i > 5)
      std::this_thread::sleep_for(1ms);  // however late the fifth is: all would take longer
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
