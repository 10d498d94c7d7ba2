#include "io/testing/memory_engine.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "io/testing/engine_contract.h"

namespace millrace::io {
namespace {

using namespace std::chrono_literals;

class MemoryFaults : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(write_pattern(ground, "f", 10'000).ok()); }

  std::unique_ptr<Reader> open() {
    auto reader = engine.open("f");
    EXPECT_TRUE(reader.ok());
    return *std::move(reader);
  }

  MemoryEngine engine;
  Ground ground{engine, ""};
  std::vector<std::byte> out = std::vector<std::byte>(20'000);
};

TEST_F(MemoryFaults, ShortTransfersAreContinued) {
  engine.set_faults({.transfer_bytes_max = 7});
  const auto outcome = check_read(*open(), 10'000, 1, out);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_GT(engine.transfer_count(), 1'000u);
}

TEST_F(MemoryFaults, InterruptedTransfersAreRetried) {
  engine.set_faults({.transfer_bytes_max = 100, .interrupt_every = 2});
  const auto outcome = check_read(*open(), 10'000, 0, out);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_GT(engine.interrupted_count(), 50u);
}

TEST_F(MemoryFaults, ABadByteFailsOnlyTheReadsThatReachIt) {
  engine.set_faults({.read_error_at = 5'000});
  const auto reader = open();
  EXPECT_TRUE(reader->read_at(0, std::span(out).first(5'000)).ok());
  EXPECT_TRUE(reader->read_at(5'001, std::span(out).first(100)).ok());
  const auto failed = reader->read_at(4'000, std::span(out).first(1'001));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message(), "cannot read 1 bytes at byte 5000: input/output error");
}

TEST_F(MemoryFaults, FaultsAffectOnlyTheFilesTheyName) {
  ASSERT_TRUE(write_pattern(ground, "other", 100).ok());
  engine.set_faults({.path_contains = "other", .open_errno = EMFILE});
  EXPECT_TRUE(engine.open("f").ok());
  EXPECT_FALSE(engine.open("other").ok());
}

TEST_F(MemoryFaults, AFullDiskRefusesNewDataAndKeepsOldData) {
  engine.set_faults({.disk_bytes = 128 << 10});
  auto writer = engine.create("g");
  ASSERT_TRUE(writer.ok());
  const std::vector<std::byte> bytes(64 << 10);
  EXPECT_TRUE((*writer)->write_at(0, bytes).ok());
  const Status full = (*writer)->write_at(64 << 10, bytes);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code(), Errc::kExhausted);
  EXPECT_TRUE(check_read(*open(), 10'000, 0, out).ok());
}

TEST_F(MemoryFaults, AStalledReadWaitsUntilItIsReleased) {
  engine.set_faults({.stalls = true});
  const auto reader = open();
  Status outcome = fail(Errc::kIo, "not read");
  std::jthread thread([&] { outcome = check_read(*reader, 10'000, 0, out); });
  while (engine.stalled_count() == 0) std::this_thread::sleep_for(1ms);
  engine.release();
  thread.join();
  EXPECT_TRUE(outcome.ok());
  EXPECT_EQ(engine.stalled_count(), 0u);
}

TEST_F(MemoryFaults, TheQueueReturnsTheLastReadFirst) {
  auto queue = engine.open_queue(2);
  ASSERT_TRUE(queue.ok());
  const auto reader = open();
  for (const uint64_t tag : {1, 2}) {
    ASSERT_TRUE((*queue)->submit({reader.get(), 0, std::span(out).first(10), tag}).ok());
  }
  std::vector<ReadDone> done;
  ASSERT_TRUE((*queue)->wait(done).ok());
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].tag, 2u);
  EXPECT_EQ((*queue)->in_flight(), 1u);
}

}  // namespace
}  // namespace millrace::io
