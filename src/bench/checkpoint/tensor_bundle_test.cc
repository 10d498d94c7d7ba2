#include "bench/checkpoint/tensor_bundle.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/io/file.h"
#include "bench/checkpoint/plan.h"
#include "bench/checkpoint/shard_bytes.h"

namespace millrace::bench {
namespace {

using data::ElementType;
using testing::EndsWith;
using testing::HasSubstr;

std::vector<BundleTensor> variables(size_t count) {
  std::vector<BundleTensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    tensors.push_back({.key = fmt::format("variable_{:05}", i),
                       .type = ElementType::kF32,
                       .count = 100,
                       .offset_bytes = 400 * i,
                       .crc32c = 7});
  }
  return tensors;
}

// The tensors of tests/golden/make_tensorflow_checkpoint.py, all of ones.
PlannedFile golden_data() {
  PlannedFile data{.name = "tensorflow.ckpt.data-00000-of-00001",
                   .kind = PlannedFile::Kind::kRaw,
                   .tensors = {{"", "layer/half", ElementType::kF16, 5}}};
  for (uint64_t i = 0; i < 40; ++i) {
    data.tensors.push_back({"", fmt::format("variable_{:03}", i), ElementType::kF32, 10 + i});
  }
  return data;
}

TEST(TensorBundle, TheIndexIsTheOneThatTensorFlowWrites) {
  const PlannedFile file{.name = "tensorflow.ckpt.index",
                         .kind = PlannedFile::Kind::kIndex,
                         .shards = {golden_data()}};
  const ShardBytes shard(file, "c", /*randomizes=*/false);
  std::string made(static_cast<size_t>(shard.size_bytes()), '\0');
  shard.fill(0, std::as_writable_bytes(std::span(made)));
  const auto golden = read_file("tests/golden/tensorflow.ckpt.index");
  ASSERT_TRUE(golden.ok()) << golden.error().message();
  EXPECT_EQ(made, *golden);
}

TEST(TensorBundle, AnIndexHasTheWantedSizeOrWhatItNeeds) {
  const auto tensors = variables(3);
  const PaddedFile natural = bundle_index(tensors, 1, 0);
  EXPECT_EQ(natural.padding_bytes, 0u);
  for (const uint64_t more : {0, 1, 100, 10'000'000}) {
    const PaddedFile longer = bundle_index(tensors, 1, natural.size_bytes() + more);
    EXPECT_EQ(longer.size_bytes(), natural.size_bytes() + more);
    EXPECT_EQ(longer.head, natural.head);
  }
}

TEST(TensorBundle, ALongIndexHasSeveralBlocksWithShortKeysBetweenThem) {
  const PaddedFile file = bundle_index(variables(30'000), 1, 0);
  EXPECT_GT(file.head.size(), 2u * 256 * 1024);
  EXPECT_THAT(file.tail, HasSubstr("variable_1"));
  EXPECT_THAT(file.tail, EndsWith("\x57\xfb\x80\x8b\x24\x75\x47\xdb"));
}

TEST(TensorBundle, AGraphHasTheWantedSizeOrWhatItNeeds) {
  const auto tensors = variables(3);
  const uint64_t needed = saver_graph(tensors, 0).size_bytes();
  EXPECT_EQ(saver_graph(tensors, needed - 1).size_bytes(), needed);
  EXPECT_EQ(saver_graph(tensors, needed + 50).size_bytes(), needed);
  for (const uint64_t size : {needed + 128, needed + 129, needed + 1000, uint64_t{20'000},
                              uint64_t{33'554'432}, kSaverGraphBytesMax}) {
    EXPECT_EQ(saver_graph(tensors, size).size_bytes(), size);
  }
  // Near 16 KiB and 2 MiB the lengths of messages become a byte longer.
  for (uint64_t size = 16'000; size < 17'000; ++size) {
    EXPECT_LE(saver_graph(tensors, size).size_bytes() - size, 2u) << size;
  }
}

TEST(TensorBundle, TheStateNamesTheCheckpointAndACommentFillsIt) {
  EXPECT_EQ(bundle_state("model.ckpt-5", 0),
            "model_checkpoint_path: \"model.ckpt-5\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-5\"\n");
  EXPECT_EQ(bundle_state("model.ckpt-5", 1000).size(), 1000u);
  EXPECT_THAT(bundle_state("model.ckpt-5", 1000), HasSubstr("\n# "));
}

}  // namespace
}  // namespace millrace::bench
