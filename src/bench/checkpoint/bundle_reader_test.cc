#include "bench/checkpoint/bundle_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "bench/checkpoint/tensor_bundle.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string golden_index() { return *read_file("tests/golden/tensorflow.ckpt.index"); }

std::string file_of(const PaddedFile& file) {
  return file.head + std::string(static_cast<size_t>(file.padding_bytes), '\xaa') + file.tail;
}

void put_file(const fs::path& path, std::string_view text) {
  const auto file = File::open(path, O_CREAT | O_TRUNC | O_WRONLY);
  ASSERT_TRUE(file.ok() && file->write_at(0, bytes_of(text)).ok());
}

// The data of the golden index.
std::string bytes_of_golden() {
  std::string data;
  for (int i = 0; i < 5; ++i) data += std::string("\x00\x3c", 2);
  for (int i = 0; i < 40 * 10 + 39 * 40 / 2; ++i) data += std::string("\x00\x00\x80\x3f", 4);
  return data;
}

TEST(BundleReader, ReadsWhatTensorFlowWrote) {
  const std::string text = golden_index();
  const auto index = parse_bundle_index(bytes_of(text));
  ASSERT_TRUE(index.ok()) << index.error().message();
  EXPECT_EQ(index->shard_count, 1u);
  ASSERT_EQ(index->tensors.size(), 41u);
  const StoredTensor& half = index->tensors.front();
  EXPECT_EQ(half.key, "layer/half");
  EXPECT_EQ(half.type_number, tensorflow_type_number(data::ElementType::kF16));
  EXPECT_THAT(half.lengths, ElementsAre(5u));
  const StoredTensor& last = index->tensors.back();
  EXPECT_EQ(last.key, "variable_039");
  EXPECT_EQ(last.offset_bytes + last.size_bytes, bytes_of_golden().size());
}

TEST(BundleReader, ReadsPaddedIndexesOfSeveralBlocks) {
  std::vector<BundleTensor> tensors;
  for (int i = 0; i < 20'000; ++i) {
    tensors.push_back({.key = fmt::format("variable_{:05}", i), .count = 7, .crc32c = 1});
  }
  const std::string text = file_of(bundle_index(tensors, 3, 1'000'000));
  EXPECT_EQ(text.size(), 1'000'000u);
  const auto index = parse_bundle_index(bytes_of(text));
  ASSERT_TRUE(index.ok()) << index.error().message();
  EXPECT_EQ(index->shard_count, 3u);
  ASSERT_EQ(index->tensors.size(), tensors.size());
  EXPECT_EQ(index->tensors[12'345].key, "variable_12345");
}

TEST(BundleReader, EveryFlippedBitOfABlockIsFound) {
  const std::string right = golden_index();
  const size_t handles_end = right.size() - 48 + 6;
  for (size_t at = 0; at < right.size(); ++at) {
    std::string wrong = right;
    wrong[at] = static_cast<char>(wrong[at] ^ 1);
    const bool is_padding = at >= handles_end && at < right.size() - 8;
    // The meta index is empty and not read.
    const bool is_meta = at >= 0x3dc && at < 0x3dc + 13;
    const bool is_meta_handle = at >= right.size() - 48 && at < right.size() - 48 + 3;
    if (is_padding || is_meta || is_meta_handle) continue;
    EXPECT_FALSE(parse_bundle_index(bytes_of(wrong)).ok()) << at;
  }
  for (size_t size = 0; size < right.size(); ++size) {
    EXPECT_FALSE(parse_bundle_index(bytes_of(right).first(size)).ok()) << size;
  }
}

TEST(BundleReader, DamageOfTheDataIsNamed) {
  const auto folder = TemporaryDirectory::create();
  ASSERT_TRUE(folder.ok());
  const fs::path index = folder->path() / "model.ckpt.index";
  const fs::path data = folder->path() / "model.ckpt.data-00000-of-00001";
  put_file(index, golden_index());
  EXPECT_THAT(verify_bundle(index).error().message(), HasSubstr("cannot open"));
  const std::string bytes = bytes_of_golden();
  put_file(data, bytes);
  const auto bundle = verify_bundle(index);
  ASSERT_TRUE(bundle.ok()) << bundle.error().message();
  EXPECT_EQ(bundle->data_bytes, bytes.size());
  EXPECT_EQ(bundle->unverified_count, 0u);
  std::string damaged = bytes;
  damaged[60] = 7;
  put_file(data, damaged);
  EXPECT_THAT(verify_bundle(index).error().message(),
              AllOf(HasSubstr(data.native() + ": tensor 'variable_001', 44 bytes at byte 50, has "
                                              "checksum 0x"),
                    HasSubstr("restore an older checkpoint")));
  put_file(data, bytes);
  fs::resize_file(data, 100);
  EXPECT_THAT(verify_bundle(index).error().message(), HasSubstr("but the file ends at 100"));
  std::string broken = golden_index();
  broken[20] ^= 4;
  put_file(index, broken);
  EXPECT_THAT(verify_bundle(index).error().message(),
              AllOf(HasSubstr(index.native() + ": the block at byte 0 has checksum"),
                    HasSubstr("restore an older checkpoint")));
}

}  // namespace
}  // namespace millrace::bench
