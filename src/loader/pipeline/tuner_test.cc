#include "loader/pipeline/tuner.h"

#include <gtest/gtest.h>

namespace millrace::loader::pipeline {
namespace {

using std::chrono::milliseconds;

constexpr TunerOptions kEightCpus{.cpu_count = 8, .prefetch_batches_max = 32, .batch_size = 64};

// An interval of 100 ms: how long the consumer waited, which fraction of their time the threads
// were idle, and how many CPUs they used.
struct Seen {
  int waited_ms = 0;
  double blocked = 0;
  double cpus = 0;
  uint64_t samples = 1000;
};

TunerInterval interval(const Tuner& tuner, const Seen& seen) {
  const double threads = tuner.setting().thread_count;
  return {.wall = milliseconds(100),
          .waited = milliseconds(seen.waited_ms),
          .blocked = std::chrono::nanoseconds(static_cast<int64_t>(seen.blocked * threads * 1e8)),
          .cpu = std::chrono::nanoseconds(static_cast<int64_t>(seen.cpus * 1e8)),
          .samples = seen.samples};
}

void observe(Tuner& tuner, const Seen& seen, int times = 1) {
  for (int i = 0; i < times; ++i) tuner.observe(interval(tuner, seen));
}

TEST(Tuner, StartsWithOneThreadPerCpuAndFewBatches) {
  EXPECT_EQ(Tuner(kEightCpus).setting(), (TunerSetting{.thread_count = 8, .prefetch_batches = 3}));
}

TEST(Tuner, StartsWithSomeOfManyCpusAndUsesAllIfTheConsumerWaits) {
  TunerOptions options = kEightCpus;
  options.cpu_count = 64;
  Tuner tuner(options);
  EXPECT_EQ(tuner.setting().thread_count, 16u);
  observe(tuner, {.waited_ms = 50, .blocked = 0, .cpus = 60}, 10);
  EXPECT_EQ(tuner.setting().thread_count, 64u);
}

TEST(Tuner, PrefetchesMoreSmallBatchesSoThatEveryThreadHasOne) {
  TunerOptions options = kEightCpus;
  options.batch_size = 1;
  EXPECT_GE(Tuner(options).setting().prefetch_batches, 8u);
}

TEST(Tuner, NeverPrefetchesMoreThanTheMemoryAllows) {
  TunerOptions options = kEightCpus;
  options.prefetch_batches_max = 2;
  Tuner tuner(options);
  observe(tuner, {.waited_ms = 50, .blocked = 0.4, .cpus = 2}, 20);
  EXPECT_EQ(tuner.setting().prefetch_batches, 2u);
}

TEST(Tuner, DoesNotExceedTheCpusIfDecodingKeepsThemBusy) {
  Tuner tuner(kEightCpus);
  observe(tuner, {.waited_ms = 90, .blocked = 0, .cpus = 7.9}, 50);
  EXPECT_EQ(tuner.setting().thread_count, 8u);
}

TEST(Tuner, ExceedsTheCpusIfThreadsWaitForADeviceAndMoreAreFaster) {
  Tuner tuner(kEightCpus);
  for (int i = 0; i < 50; ++i) {
    observe(tuner, {.waited_ms = 90, .cpus = 0.5, .samples = 100 * tuner.setting().thread_count});
  }
  EXPECT_EQ(tuner.setting().thread_count, 32u);
}

TEST(Tuner, RemovesAThreadAboveTheCpusThatBroughtNoSpeedup) {
  Tuner tuner(kEightCpus);
  observe(tuner, {.waited_ms = 90, .cpus = 0.5, .samples = 1000});
  EXPECT_GT(tuner.setting().thread_count, 8u);
  observe(tuner, {.waited_ms = 90, .cpus = 0.5, .samples = 1000}, 30);
  EXPECT_EQ(tuner.setting().thread_count, 8u);
}

TEST(Tuner, LengthensTheQueueIfThreadsAreIdleAndTheConsumerWaits) {
  Tuner tuner(kEightCpus);
  observe(tuner, {.waited_ms = 10, .blocked = 0.4, .cpus = 3});
  EXPECT_EQ(tuner.setting(), (TunerSetting{.thread_count = 8, .prefetch_batches = 5}));
  observe(tuner, {.waited_ms = 10, .blocked = 0.4, .cpus = 3}, 20);
  EXPECT_EQ(tuner.setting().prefetch_batches, 32u);
}

TEST(Tuner, ShrinksSlowlyIfThreadsAreIdleAndNobodyWaits) {
  Tuner tuner(kEightCpus);
  observe(tuner, {.blocked = 0.9, .cpus = 0.5}, 7);
  EXPECT_EQ(tuner.setting().thread_count, 8u);
  observe(tuner, {.blocked = 0.9, .cpus = 0.5});
  EXPECT_EQ(tuner.setting().thread_count, 7u);
  observe(tuner, {.blocked = 0.9, .cpus = 0.5}, 1000);
  EXPECT_EQ(tuner.setting().thread_count, 1u);
}

TEST(Tuner, DoesNotShrinkAgainToTooFewThreads) {
  Tuner tuner(kEightCpus);
  observe(tuner, {.blocked = 0.9, .cpus = 0.5}, 8);
  ASSERT_EQ(tuner.setting().thread_count, 7u);
  observe(tuner, {.waited_ms = 20, .blocked = 0, .cpus = 5});
  ASSERT_EQ(tuner.setting().thread_count, 8u);
  observe(tuner, {.blocked = 0.6, .cpus = 0.5}, 50);
  EXPECT_EQ(tuner.setting().thread_count, 8u);
}

TEST(Tuner, KeepsFixedSettings) {
  TunerOptions options = kEightCpus;
  options.fixed_thread_count = 3;
  options.fixed_prefetch_batches = 4;
  Tuner tuner(options);
  observe(tuner, {.waited_ms = 90, .cpus = 0.5}, 20);
  observe(tuner, {.waited_ms = 90, .blocked = 0.5, .cpus = 0.5}, 20);
  observe(tuner, {.blocked = 0.9}, 100);
  EXPECT_EQ(tuner.setting(), (TunerSetting{.thread_count = 3, .prefetch_batches = 4}));
}

TEST(Tuner, AFixedQueueIsStillBoundedByTheMemory) {
  TunerOptions options = kEightCpus;
  options.fixed_prefetch_batches = 100;
  EXPECT_EQ(Tuner(options).setting().prefetch_batches, 32u);
}

TEST(Tuner, EqualMeasurementsGiveEqualSettings) {
  Tuner one(kEightCpus);
  Tuner other(kEightCpus);
  for (int i = 0; i < 200; ++i) {
    const Seen seen{.waited_ms = i * 7 % 30, .blocked = i % 10 / 10.0, .cpus = i % 8 * 1.0};
    observe(one, seen);
    observe(other, seen);
    ASSERT_EQ(one.setting(), other.setting()) << "after interval " << i;
  }
}

}  // namespace
}  // namespace millrace::loader::pipeline
