#include "bench/checkpoint/shard_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/io/gzip.h"
#include "format/records/zip.h"

namespace millrace::bench {
namespace {

using data::ElementType;
using testing::ElementsAre;
using testing::HasSubstr;

PlannedFile example_file() {
  return {.name = "model_states-0.pt",
          .kind = PlannedFile::Kind::kTorch,
          .tensors = {{"0", "a", ElementType::kF16, 5000},
                      {"0", "b", ElementType::kF32, 3},
                      {"", "combined", ElementType::kI8, 70'000}},
          .size_bytes = 80'012};
}

std::vector<std::byte> all_of(const ShardBytes& shard) {
  std::vector<std::byte> bytes(static_cast<size_t>(shard.size_bytes()));
  shard.fill(0, bytes);
  return bytes;
}

TEST(ShardBytes, ATorchFileIsAZipFileWithValidChecksums) {
  const ShardBytes shard(example_file(), "global_epoch1_step1", true);
  const auto bytes = all_of(shard);
  const auto members = format::list_zip(bytes);
  ASSERT_TRUE(members.ok()) << members.error().message();
  std::vector<std::string> names;
  for (const format::ZipMember& member : *members) {
    names.emplace_back(member.name);
    EXPECT_EQ(member.crc32, zip_crc32(member.packed)) << member.name;
  }
  EXPECT_THAT(names, ElementsAre("archive/data.pkl", "archive/byteorder", "archive/data/0",
                                 "archive/data/1", "archive/data/2", "archive/version"));
  EXPECT_EQ((*members)[2].size_bytes, 10'000u);
}

TEST(ShardBytes, PartsAreThoseOfTheWhole) {
  const ShardBytes shard(example_file(), "global_epoch1_step1", true);
  const auto whole = all_of(shard);
  for (const size_t step : {1, 4095, 4096, 33'333}) {
    std::vector<std::byte> parts(whole.size());
    for (size_t at = 0; at < whole.size(); at += step) {
      shard.fill(at, MutableByteView(parts).subspan(at, std::min(step, whole.size() - at)));
    }
    EXPECT_EQ(parts, whole) << step;
  }
}

TEST(ShardBytes, ADifferenceIsFoundWhereverItIs) {
  const ShardBytes shard(example_file(), "c", true);
  auto bytes = all_of(shard);
  EXPECT_EQ(shard.find_difference(0, bytes), bytes.size());
  for (size_t at = 0; at < bytes.size(); at += 997) {
    const std::byte right = bytes[at];
    EXPECT_EQ(shard.at(at), right);
    bytes[at] ^= std::byte{128};
    EXPECT_EQ(shard.find_difference(0, bytes), at);
    EXPECT_EQ(shard.find_difference(at / 2, ByteView(bytes).subspan(at / 2)), at - at / 2);
    bytes[at] = right;
  }
}

TEST(ShardBytes, CheckpointsDiffer) {
  EXPECT_NE(all_of(ShardBytes(example_file(), "global_epoch1_step1", true)),
            all_of(ShardBytes(example_file(), "global_epoch1_step2", true)));
  EXPECT_EQ(all_of(ShardBytes(example_file(), "global_epoch1_step1", false)),
            all_of(ShardBytes(example_file(), "global_epoch1_step2", false)));
}

TEST(ShardBytes, PlacesHaveNames) {
  const ShardBytes shard(example_file(), "c", true);
  EXPECT_EQ(shard.describe(0), "archive/data.pkl");
  EXPECT_EQ(shard.describe(shard.size_bytes() - 1), "the zip directory");
  EXPECT_EQ(shard.describe(shard.size_bytes() - 2000), "tensor 'combined'");
  EXPECT_EQ(shard.describe(2000), "tensor '0'['a']");
}

// A shard of a huge model: its size and bytes are known at once, without its memory.
TEST(ShardBytes, ATensorOverFourGigabytesUsesZip64) {
  PlannedFile file = example_file();
  file.tensors[2].count = uint64_t{5} << 30;
  const ShardBytes shard(file, "c", true);
  EXPECT_GT(shard.size_bytes(), uint64_t{5} << 30);
  std::vector<std::byte> tail(200);
  shard.fill(shard.size_bytes() - tail.size(), tail);
  EXPECT_THAT(std::string(text_of(tail)), HasSubstr("PK\x06\x06"));
}

TEST(ShardBytes, TensorFlowsStateNamesItsCheckpointAndHasItsSize) {
  PlannedFile file{.name = "checkpoint",
                   .kind = PlannedFile::Kind::kState,
                   .size_bytes = 1000,
                   .prefix = "model.ckpt-50"};
  const auto bytes = all_of(ShardBytes(file, "c", true));
  EXPECT_EQ(bytes.size(), 1000u);
  EXPECT_THAT(std::string(text_of(bytes)), HasSubstr("model_checkpoint_path: \"model.ckpt-50\"\n"));
  file.size_bytes = 0;
  EXPECT_EQ(ShardBytes(file, "c", true).size_bytes(), 83u);
}

TEST(StatePickle, NestsGroups) {
  const PlannedTensor tensors[] = {{"0", "a", ElementType::kF16, 1},
                                   {"0", "b", ElementType::kF16, uint64_t{1} << 33},
                                   {"", "combined", ElementType::kI8, 300}};
  const std::string pickle = pickle_state(tensors);
  EXPECT_EQ(pickle.substr(0, 4), "\x80\x02}(");
  EXPECT_EQ(pickle.back(), '.');
  EXPECT_EQ(std::ranges::count(pickle, 'u') >= 2, true);
}

}  // namespace
}  // namespace millrace::bench
