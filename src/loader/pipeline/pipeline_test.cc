// Tests the loader with bad samples, stuck reads, consumers that stop, and forks.
#include "loader/pipeline/pipeline.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/system/cpus.h"
#include "loader/loader.h"
#include "loader/testing/fake_loaders.h"

namespace millrace::loader::pipeline {
namespace {

using data::Epoch;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Pipeline, ABadSampleIsNamedAtItsBatchAndTheLoaderContinues) {
  const auto source = std::make_shared<FakeSource>(12);
  source->bad = {6, 5};
  const auto loader = begun(in_order(source, 4));
  EXPECT_THAT(next_samples(*loader), ElementsAre(0, 1, 2, 3));
  const uint64_t done = loader->state().done;
  const Error error = next_error(*loader);
  EXPECT_EQ(error.message(), "sample-5: input/output error");
  EXPECT_EQ(error.code(), Errc::kIo);
  EXPECT_EQ(loader->state().done, done);  // a restart retries the batch
  EXPECT_THAT(next_samples(*loader), ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(loader->state().done, 12u);
  EXPECT_FALSE((*loader->next()).has_value());
  EXPECT_EQ(loader->stats().bad_samples, 2u);
  EXPECT_EQ(loader->stats().first_bad_sample, "sample-5: input/output error");
}

TEST(Pipeline, AnUndecodableSampleIsNamed) {
  const auto decoder = std::make_shared<FakeDecoder>();
  decoder->bad = {2};
  LoaderOptions options = in_order(std::make_shared<FakeSource>(4), 4);
  options.decoder = decoder;
  EXPECT_EQ(next_error(*begun(options)).message(), "sample-2: the header is damaged");
}

TEST(Pipeline, AnExceptionIsAnErrorOfItsSample) {
  const auto source = std::make_shared<FakeSource>(4);
  source->throwing = {3};
  const Error error = next_error(*begun(in_order(source, 4)));
  EXPECT_THAT(error.message(), HasSubstr("sample-3: "));
  EXPECT_THAT(error.message(), HasSubstr("a library threw"));
}

TEST(Pipeline, AVerbatimSampleOfAnotherLengthIsNamed) {
  const auto source = std::make_shared<FakeSource>(4);
  source->short_ones = {1};
  LoaderOptions options = in_order(source, 4);
  options.decoder = std::make_shared<FakeVerbatim>();
  const Error error = next_error(*begun(options));
  EXPECT_THAT(error.message(),
              HasSubstr("sample-1: it has 15 bytes, but every sample must have 16"));
}

TEST(Pipeline, BadSamplesAreLeftOutOnRequestAndTheRowsMoveUp) {
  const auto source = std::make_shared<FakeSource>(10);
  source->bad = {0, 2, 9};
  LoaderOptions options = in_order(source, 4);
  options.skips_bad_samples = true;
  options.tail = order::Tail::kPad;
  const auto loader = begun(options);
  const auto batch = *loader->next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->row_count, 2u);
  EXPECT_THAT(samples_of(*batch), ElementsAre(1, 3));
  EXPECT_THAT(batch->labels, ElementsAre(1, 3));
  ASSERT_EQ(batch->fields[0].bytes.size(), 32u);
  EXPECT_EQ(batch->fields[0].bytes[0], FakeSource::byte_at(1, 15));
  EXPECT_EQ(batch->fields[0].bytes[16], FakeSource::byte_at(3, 15));
  EXPECT_THAT(next_samples(*loader), ElementsAre(4, 5, 6, 7));
  const auto last = *loader->next();  // 8, 9 (bad), and as padding 0 (bad), 1
  EXPECT_THAT(samples_of(*last), ElementsAre(8, 1));
  EXPECT_THAT(last->is_real, ElementsAre(1, 0));
  EXPECT_EQ(loader->stats().bad_samples, 4u);
}

TEST(Pipeline, ABatchOfOnlyBadSamplesIsEmptyButStillAStep) {
  const auto source = std::make_shared<FakeSource>(4);
  source->bad = {0, 1};
  LoaderOptions options = in_order(source, 2);
  options.skips_bad_samples = true;
  const auto loader = begun(options);
  const auto batch = *loader->next();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->row_count, 0u);
  EXPECT_THAT(next_samples(*loader), ElementsAre(2, 3));
}

TEST(Pipeline, AStuckReadIsNamedAfterTheDeadlineAndTheBatchComesLater) {
  const auto source = std::make_shared<FakeSource>(8);
  source->stuck = {5};
  LoaderOptions options = in_order(source, 4);
  options.read_deadline = milliseconds(30);
  const auto loader = begun(options);
  EXPECT_THAT(next_samples_at_last(*loader), ElementsAre(0, 1, 2, 3));
  const Error error = error_that_names(*loader, "sample-5 ");
  EXPECT_EQ(error.code(), Errc::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("sample-5 (read for "));
  EXPECT_THAT(error.message(), HasSubstr("deadline of 30 ms"));
  EXPECT_EQ(next_error(*loader).code(), Errc::kTimeout);
  source->release();
  EXPECT_THAT(next_samples_at_last(*loader), ElementsAre(4, 5, 6, 7));
}

TEST(Pipeline, ALoaderWithAStuckReadCanBeDestroyedAndItsThreadEndsLater) {
  const auto source = std::make_shared<FakeSource>(8);
  source->stuck = {0};
  LoaderOptions options = in_order(source, 4);
  options.read_deadline = milliseconds(5);
  auto loader = begun(options);
  options.source.reset();
  EXPECT_EQ(error_that_names(*loader, "sample-0 ").code(), Errc::kTimeout);
  loader.reset();
  EXPECT_GT(source.use_count(), 1);  // the thread still has it
  source->release();
  while (source.use_count() > 1) std::this_thread::yield();
}

TEST(Pipeline, CancelEndsThisAndLaterWaitsUntilAnEpochStarts) {
  const auto source = std::make_shared<FakeSource>(8);
  source->stuck = {0};
  const auto loader = begun(in_order(source, 4));
  std::thread canceller([&] {
    std::this_thread::sleep_for(milliseconds(10));
    loader->cancel();
  });
  EXPECT_EQ(next_error(*loader).code(), Errc::kCancelled);
  canceller.join();
  EXPECT_EQ(next_error(*loader).code(), Errc::kCancelled);
  source->release();
  ASSERT_TRUE(loader->start_epoch(Epoch{1}).ok());
  EXPECT_THAT(next_samples(*loader), ElementsAre(0, 1, 2, 3));
}

TEST(Pipeline, TellsWhenTheNextBatchIsReady) {
  const auto source = std::make_shared<FakeSource>(8);
  source->stuck = {5};
  LoaderOptions options = in_order(source, 4);
  std::atomic<int> told = 0;
  options.on_ready = [&] {
    ++told;
    told.notify_all();
  };
  const auto loader = begun(options);
  told.wait(0);
  EXPECT_TRUE(loader->is_ready());
  EXPECT_THAT(next_samples(*loader), ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(loader->is_ready());
  EXPECT_EQ(told, 1);
  source->release();
  told.wait(1);
  EXPECT_TRUE(loader->is_ready());
  EXPECT_THAT(next_samples(*loader), ElementsAre(4, 5, 6, 7));
  EXPECT_TRUE(loader->is_ready());  // next() returns the end of the epoch at once
}

TEST(Pipeline, ABatchThatFailsWhollyIsReady) {
  LoaderOptions options = in_order(std::make_shared<FakeSource>(8), 4);
  options.memory_hooks.allocate = [](size_t) { return nullptr; };
  std::atomic<int> told = 0;
  options.on_ready = [&] {
    ++told;
    told.notify_all();
  };
  const auto loader = begun(options);
  told.wait(0);
  EXPECT_TRUE(loader->is_ready());
  EXPECT_EQ(next_error(*loader).code(), Errc::kExhausted);
}

TEST(Pipeline, WaitsOfTheConsumerAreCounted) {
  const auto loader = begun(in_order(std::make_shared<FakeSource>(8), 4));
  const auto before = loader->stats().waited;
  loader->count_wait(milliseconds(70));
  EXPECT_EQ(loader->stats().waited - before, milliseconds(70));
}

TEST(Pipeline, AWaitPollsForInterruption) {
  const auto source = std::make_shared<FakeSource>(8);
  source->stuck = {0};
  LoaderOptions options = in_order(source, 4);
  int asked = 0;
  options.is_interrupted = [&] { return ++asked == 2; };
  const auto loader = begun(options);
  EXPECT_EQ(next_error(*loader).code(), Errc::kCancelled);
  EXPECT_EQ(asked, 2);
  source->release();
  EXPECT_THAT(next_samples(*loader), ElementsAre(0, 1, 2, 3));
}

TEST(Pipeline, HeldBatchesStayValidAndBlockNothing) {
  const auto source = std::make_shared<FakeSource>(400);
  LoaderOptions options = in_order(source, 4);
  options.prefetch_batches = 2;
  options.memory_bytes = 64 << 10;  // a few batches
  std::vector<data::Batch> kept;
  {
    const auto loader = begun(options);
    for (int i = 0; i < 100; ++i) {
      auto batch = loader->next();
      ASSERT_TRUE(batch.ok()) << batch.error().message();
      kept.push_back(**batch);
    }
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    ASSERT_EQ(data::index_of(kept[i].samples[3]), 4 * i + 3);
    ASSERT_EQ(kept[i].fields[0].bytes[3 * 16], FakeSource::byte_at(4 * i + 3, 15));
  }
}

TEST(Pipeline, PrefetchesAtMostAsManyBatchesAsTheOptionsSay) {
  const auto source = std::make_shared<FakeSource>(1000);
  LoaderOptions options = in_order(source, 10);
  options.prefetch_batches = 3;
  const auto loader = begun(options);
  next_samples(*loader);
  while (source->read_count() < 40) std::this_thread::yield();
  // Threads are blocked, so they have no more to do.
  while (loader->stats().blocked.count() == 0) std::this_thread::yield();
  EXPECT_EQ(source->read_count(), 40u);  // one taken, three ready
}

TEST(Pipeline, BuffersAreReused) {
  struct Counts {
    std::atomic<int> allocated = 0;
    std::atomic<int> freed = 0;
  };
  // Captured by the hooks: on a busy machine, threads may outlive the loader.
  const auto counts = std::make_shared<Counts>();
  {
    LoaderOptions options = in_order(std::make_shared<FakeSource>(1000), 10);
    options.prefetch_batches = 2;
    options.memory_hooks = {.allocate =
                                [counts](size_t size_bytes) {
                                  ++counts->allocated;
                                  return std::aligned_alloc(4096, size_bytes);
                                },
                            .free =
                                [counts](void* memory, size_t) {
                                  ++counts->freed;
                                  std::free(memory);
                                }};
    const auto loader = begun(options);
    for (int i = 0; i < 100; ++i) next_samples(*loader);
  }
  // Two in progress, one in use, and those that the two threads have not released yet.
  EXPECT_LE(counts->allocated.load(), 5);
  while (counts->freed < counts->allocated) std::this_thread::yield();
  EXPECT_EQ(counts->freed.load(), counts->allocated.load());
}

TEST(Pipeline, RefusedMemoryIsAnErrorOfTheBatch) {
  LoaderOptions options = in_order(std::make_shared<FakeSource>(10), 5);
  options.memory_hooks.allocate = [](size_t) -> void* { return nullptr; };
  const Error error = next_error(*begun(options));
  EXPECT_EQ(error.code(), Errc::kExhausted);
}

TEST(Pipeline, AThrowingAllocatorIsAnErrorOfTheBatch) {
  LoaderOptions options = in_order(std::make_shared<FakeSource>(10), 5);
  options.memory_hooks.allocate = [](size_t) -> void* { throw std::runtime_error("out of pins"); };
  EXPECT_THAT(next_error(*begun(options)).message(), HasSubstr("out of pins"));
}

TEST(Pipeline, AConsumerMayStopAtAnyTime) {
  for (int batches = 0; batches < 8; ++batches) {
    const auto source = std::make_shared<FakeSource>(100'000);
    source->delay = std::chrono::microseconds(100);
    const auto loader = begun(in_order(source, 16));
    for (int i = 0; i < batches; ++i) EXPECT_EQ(next_samples(*loader).size(), 16u);
  }
}

TEST(Pipeline, EpochsMayStartInAnyOrderAtAnyTime) {
  const auto source = std::make_shared<FakeSource>(64);
  LoaderOptions options = in_order(source, 8);
  options.decoder = std::make_shared<FakeVerbatim>();
  options.thread_count = 4;
  const auto loader = begun(options);
  for (uint64_t i = 0; i < 300; ++i) {
    ASSERT_TRUE(loader->start_epoch(Epoch{i * i % 7}).ok());
    for (uint64_t batch = 0; batch < i % 10; ++batch) {
      const auto samples = next_samples(*loader);
      ASSERT_EQ(samples.empty(), batch >= 8);
      if (!samples.empty()) {
        ASSERT_EQ(samples[0], batch * 8);
      }
    }
  }
}

TEST(Pipeline, StartsMoreThreadsThanCpusIfReadsWaitForADevice) {
  const auto source = std::make_shared<FakeSource>(1'000'000);
  source->delay = milliseconds(2);
  LoaderOptions options = in_order(source, 8);
  options.thread_count = 0;
  const auto loader = begun(options);
  const uint32_t at_first = loader->stats().thread_count;
  while (loader->stats().thread_count <= at_first) next_samples(*loader);
  EXPECT_LE(loader->stats().thread_count, 4 * usable_cpu_count());
}

struct LoadingThread {
  std::string name;
  uint64_t blocked_signals = 0;
};

// The loader's threads in this process, as ps shows them.
std::vector<LoadingThread> loading_threads() {
  std::vector<LoadingThread> threads;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) {
    const std::string task = std::string("/proc/self/task/") + entry->d_name;
    std::string name;
    std::getline(std::ifstream(task + "/comm"), name);
    if (!name.starts_with("mr-load-")) continue;
    std::ifstream status(task + "/status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;  // missing if the thread exits meanwhile
      threads.push_back({name, std::strtoull(line.c_str() + 8, nullptr, 16)});
    }
  }
  closedir(tasks);
  return threads;
}

TEST(Pipeline, ThreadsHaveNamesAndBlockSignals) {
  const auto loader = begun(in_order(std::make_shared<FakeSource>(100), 4));
  next_samples(*loader);
  auto threads = loading_threads();
  // Threads of the previous test may still be listed shortly after a join, or were abandoned. While
  // a thread exits, the list may also lack another one.
  while (threads.size() != 2) threads = loading_threads();
  std::vector<std::string> names;
  for (const LoadingThread& thread : threads) {
    names.push_back(thread.name);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGUSR1}) {
      EXPECT_NE(thread.blocked_signals >> (signal - 1) & 1, 0u) << "signal " << signal;
    }
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("mr-load-0", "mr-load-1"));
}

// Runs `work` in a forked child and returns its exit status. The child skips the tests' cleanup.
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Pipeline, ALoaderFailsWithAReasonInAChildOfFork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not follow a fork of threads";
#endif
  auto loader = begun(in_order(std::make_shared<FakeSource>(1000), 4));
  auto held = *loader->next();
  EXPECT_EQ(in_child([&] {
              const auto batch = loader->next();
              if (batch.ok() || batch.error().code() != Errc::kCancelled) return 1;
              if (batch.error().message().find("fork") == std::string::npos) return 2;
              if (loader->start_epoch(Epoch{1}).ok()) return 3;
              if (loader->restore(loader->state()).ok()) return 4;
              loader->cancel();
              if (loader->stats().batches != 1) return 5;
              held.reset();
              loader.reset();  // must not wait for threads that do not exist here
              return 0;
            }),
            0);
  EXPECT_THAT(next_samples(*loader), ElementsAre(4, 5, 6, 7));
}

TEST(Pipeline, ALoaderThatWasOnlyOpenedWorksInAChildOfFork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not follow a fork of threads";
#endif
  auto loader = *Loader::open(in_order(std::make_shared<FakeSource>(1000), 4));
  EXPECT_EQ(in_child([&] {
              if (!loader->start_epoch(Epoch{0}).ok()) return 1;
              const auto batch = loader->next();
              if (!batch.ok() || !*batch) return 2;
              const bool is_right = samples_of(**batch) == std::vector<uint64_t>{0, 1, 2, 3};
              loader.reset();
              return is_right ? 0 : 3;
            }),
            0);
}

TEST(Pipeline, OtherThreadsMayReadStats) {
  const auto source = std::make_shared<FakeSource>(2000);
  LoaderOptions options = in_order(source, 4);
  options.thread_count = 0;
  const auto loader = begun(options);
  std::atomic<bool> is_done = false;
  std::thread asking([&] {
    while (!is_done) EXPECT_LE(loader->stats().batches, 500u);
  });
  for (int i = 0; i < 500; ++i) next_samples(*loader);
  is_done = true;
  asking.join();
  const LoaderStats stats = loader->stats();
  EXPECT_EQ(stats.batches, 500u);
  EXPECT_EQ(stats.samples, 2000u);
  EXPECT_GT(stats.read.count(), 0);
  EXPECT_GT(stats.decode.count(), 0);
  EXPECT_GE(stats.thread_count, 1u);
}

}  // namespace
}  // namespace millrace::loader::pipeline
