#include "doctor/probe_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/io/file.h"

namespace millrace::doctor {
namespace {

using testing::HasSubstr;
using wire::kProbeBlockSizeBytes;

class ProbeBlockTest : public testing::Test {
 protected:
  void SetUp() override {
    Random random(1);
    fill_probe_blocks(blocks_, kRun, kOffset, random);
  }

  static constexpr uint64_t kRun = 42;
  static constexpr uint64_t kOffset = 8 * kProbeBlockSizeBytes;
  std::vector<std::byte> blocks_ = std::vector<std::byte>(3 * kProbeBlockSizeBytes);
};

TEST_F(ProbeBlockTest, FilledBlocksVerify) {
  EXPECT_TRUE(verify_probe_blocks(blocks_, kRun, kOffset, Depth::kHeads).ok());
  EXPECT_TRUE(verify_probe_blocks(blocks_, kRun, kOffset, Depth::kWhole).ok());
}

// tests/golden/probe_block.bin holds two blocks of run 42, from byte 8192 on, filled with seed 7.
TEST(ProbeBlockGolden, ThisBuildReadsAndWritesTheSameBytes) {
  const auto golden = read_file("tests/golden/probe_block.bin");
  ASSERT_TRUE(golden.ok()) << golden.error().message();
  EXPECT_TRUE(verify_probe_blocks(bytes_of(*golden), 42, 8192, Depth::kWhole).ok());
  std::string again(golden->size(), '\0');
  Random random(7);
  fill_probe_blocks(std::as_writable_bytes(std::span(again)), 42, 8192, random);
  EXPECT_TRUE(again == *golden);
}

TEST_F(ProbeBlockTest, TheWholeCheckFindsEveryFlippedBit) {
  for (size_t bit = 0; bit < blocks_.size() * 8; bit += 251) {
    const auto mask = static_cast<std::byte>(1u << (bit % 8));
    blocks_[bit / 8] ^= mask;
    EXPECT_FALSE(verify_probe_blocks(blocks_, kRun, kOffset, Depth::kWhole).ok()) << bit;
    blocks_[bit / 8] ^= mask;
  }
}

TEST_F(ProbeBlockTest, TheErrorSaysWhichBlockAndWhatCameBack) {
  const auto other_place = verify_probe_blocks(blocks_, kRun, 0, Depth::kHeads);
  EXPECT_EQ(other_place.error().message(),
            "the block at byte 0 came back as the block at byte 32768");
  const auto other_run = verify_probe_blocks(blocks_, 43, kOffset, Depth::kHeads);
  EXPECT_THAT(other_run.error().message(), HasSubstr("of an earlier run"));
  std::fill(blocks_.begin() + kProbeBlockSizeBytes, blocks_.end(), std::byte{0});
  const auto zeros = verify_probe_blocks(blocks_, kRun, kOffset, Depth::kHeads);
  EXPECT_THAT(zeros.error().message(),
              HasSubstr("the block at byte 36864 came back with other bytes"));
}

TEST_F(ProbeBlockTest, ATornBlockIsRejected) {
  blocks_.resize(kProbeBlockSizeBytes + 100);
  EXPECT_FALSE(verify_probe_blocks(blocks_, kRun, kOffset, Depth::kHeads).ok());
}

}  // namespace
}  // namespace millrace::doctor
