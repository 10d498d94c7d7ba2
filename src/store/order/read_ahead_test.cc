#include "store/order/read_ahead.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/io/mounts.h"
#include "store/pack/packer.h"
#include "store/testing/store_case.h"

namespace millrace::store {
namespace {

namespace fs = std::filesystem;

// Two partitions: one of more than a piece, and another one.
class ReadAheadTest : public StoreCase {
 protected:
  void SetUp() override {
    StoreCase::SetUp();
    for (const char* name : {"a", "b"}) {
      put_file(top_ / "source" / name, std::string(5 << 20, name[0]));
    }
    PackOptions options{.source = top_ / "source", .directory = top_ / "pack"};
    options.partition_count = 2;
    options.codec = CodecChoice::kNone;
    pack_files(options);
    auto reader = PackReader::open(options.directory);
    ASSERT_TRUE(reader.ok());
    reader_ = std::make_unique<PackReader>(*std::move(reader));
  }

  std::unique_ptr<ReadAhead> start(
      uint64_t budget_bytes, std::function<void(uint32_t index, BlockCodec& codec)> make = {}) {
    auto made = ReadAhead::start(
        *reader_, {.budget_bytes = budget_bytes, .only_shared = false, .make = std::move(make)});
    EXPECT_TRUE(made.ok());
    return made.ok() ? *std::move(made) : nullptr;
  }

  uint64_t bytes_of(uint32_t partition) const {
    return reader_->catalogue().partition(partition).file_bytes;
  }

  static void need(ReadAhead& ahead, uint32_t partition) {
    for (uint32_t i = 0; i < ReadAhead::kNeededMin; ++i) ahead.note(partition);
  }

  // Ends: the thread reads all, or the test runs into its own limit.
  static void wait_for(const ReadAhead& ahead, uint64_t bytes) {
    while (ahead.read_bytes() < bytes) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::unique_ptr<PackReader> reader_;
};

TEST_F(ReadAheadTest, ReadsAWholePartitionOnceItIsNeeded) {
  const auto ahead = start(uint64_t{1} << 30);
  EXPECT_EQ(ahead->read_bytes(), 0u);
  need(*ahead, 1);
  wait_for(*ahead, bytes_of(1));
  need(*ahead, 1);
  need(*ahead, 0);
  wait_for(*ahead, bytes_of(0) + bytes_of(1));
  EXPECT_EQ(ahead->read_bytes(), bytes_of(0) + bytes_of(1));
}

TEST_F(ReadAheadTest, LeavesWhatDoesNotFitIntoTheBudget) {
  const auto ahead = start(bytes_of(0) + 1);
  need(*ahead, 0);
  need(*ahead, 1);
  wait_for(*ahead, bytes_of(0));
  EXPECT_EQ(ahead->read_bytes(), bytes_of(0));
}

TEST_F(ReadAheadTest, EndsWhileItReads) {
  const auto ahead = start(uint64_t{1} << 30);
  need(*ahead, 0);
  need(*ahead, 1);
}

TEST_F(ReadAheadTest, AFewFilesAreNotEnough) {
  const auto ahead = start(uint64_t{1} << 30);
  for (uint32_t i = 1; i < ReadAhead::kNeededMin; ++i) ahead->note(0);
  need(*ahead, 1);
  wait_for(*ahead, bytes_of(1));
  EXPECT_EQ(ahead->read_bytes(), bytes_of(1));
}

TEST_F(ReadAheadTest, MakesTheFilesOfThePartition) {
  std::atomic<uint32_t> made = 0;
  {
    const auto ahead = start(uint64_t{1} << 30, [&](uint32_t index, BlockCodec&) { made = index; });
    need(*ahead, 0);
    while (made == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(reader_->catalogue().entry(made).partition, 0u);
  EXPECT_EQ(reader_->catalogue().entry(made).kind, wire::EntryKind::kFile);
}

TEST_F(ReadAheadTest, IsNotNeededForAPackOnThisNode) {
  const auto mount = mount_of(fs::canonical(top_));
  if (mount && is_shared(mount->file_system))
    GTEST_SKIP() << "temporary files are not on this node";
  const auto made = ReadAhead::start(*reader_, {.budget_bytes = uint64_t{1} << 30});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(*made, nullptr);
}

}  // namespace
}  // namespace millrace::store
