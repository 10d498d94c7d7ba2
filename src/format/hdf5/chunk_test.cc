#include "format/hdf5/chunk.h"

#include <gmock/gmock.h>

#include <string>

#include "format/hdf5/rows.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using FilterKind = Hdf5Filter::Kind;
using testing::HasSubstr;

// A dataset of uint8 in one chunk.
Hdf5Dataset dataset_of(uint64_t count, std::vector<Hdf5Filter> filters) {
  Hdf5Dataset dataset;
  dataset.name = "x";
  dataset.lengths = {count};
  dataset.kind = Hdf5Dataset::Kind::kChunked;
  dataset.chunk_lengths = {count};
  dataset.chunks = {{.offset_bytes = 0, .size_bytes = 0}};
  dataset.filters = std::move(filters);
  dataset.fill = {std::byte{7}};
  return dataset;
}

Result<std::string> decoded(const Hdf5Dataset& dataset, std::string_view packed,
                            uint32_t skipped_filters = 0) {
  data::Buffer spare[2];
  std::string out(dataset.chunk_bytes(), '?');
  Hdf5Chunk chunk{.offset_bytes = 0,
                  .size_bytes = static_cast<uint32_t>(packed.size()),
                  .skipped_filters = skipped_filters};
  RETURN_IF_ERROR(decode_chunk(dataset, chunk, bytes_of(packed), spare,
                               std::as_writable_bytes(std::span(out))));
  return out;
}

TEST(Hdf5Chunk, ShuffledBytesReturnToTheirElements) {
  const auto dataset = dataset_of(10, {{FilterKind::kShuffle, 4}});
  EXPECT_EQ(*decoded(dataset, "aebfcgdhij"), "abcdefghij");
  const auto odd = dataset_of(7, {{FilterKind::kShuffle, 3}});
  EXPECT_EQ(*decoded(odd, "adbecfg"), "abcdefg");
}

TEST(Hdf5Chunk, SkippedFiltersAreNotUndone) {
  const auto dataset = dataset_of(4, {{FilterKind::kShuffle, 2}, {FilterKind::kDeflate}});
  EXPECT_EQ(*decoded(dataset, "acbd", 0b10), "abcd");
  EXPECT_EQ(*decoded(dataset, "abcd", 0b11), "abcd");
}

TEST(Hdf5Chunk, AWrongChecksumIsAnError) {
  const auto dataset = dataset_of(4, {{FilterKind::kFletcher32}});
  // 0x6162 + 0x6364, and the sum of the sums, as HDF5 stores them.
  EXPECT_EQ(*decoded(dataset, std::string("abcd\xc6\xc4\x29\x26", 8)), "abcd");
  EXPECT_THAT(decoded(dataset, std::string("abce\xc6\xc4\x29\x26", 8)).error().message(),
              HasSubstr("checksum 262ac4c7"));
  EXPECT_FALSE(decoded(dataset, "abc").ok());
}

TEST(Hdf5Chunk, LzfRepeatsEarlierBytes) {
  const auto dataset = dataset_of(9, {{FilterKind::kLzf}});
  // Three literals, then six bytes from three back.
  EXPECT_EQ(*decoded(dataset, std::string("\2abc\x80\2", 6)), "abcabcabc");
}

TEST(Hdf5Chunk, DamagedLzfIsAnError) {
  const auto dataset = dataset_of(9, {{FilterKind::kLzf}});
  for (const std::string& packed :
       {std::string(), std::string("\2ab", 3), std::string("\2abc\x80", 5),
        std::string("\2abc\x80\3", 6), std::string("\2abc\xe0\2", 6),
        std::string("\2abc\x80\2\0a", 8)}) {
    EXPECT_FALSE(decoded(dataset, packed).ok()) << packed.size();
  }
}

TEST(Hdf5Chunk, TheLengthMustMatch) {
  const auto dataset = dataset_of(4, {});
  EXPECT_EQ(*decoded(dataset, "abcd"), "abcd");
  EXPECT_THAT(decoded(dataset, "abc").error().message(), HasSubstr("3 bytes instead of 4"));
}

#ifdef MILLRACE_HAVE_GZIP
TEST(Hdf5Chunk, DeflatedBytesAreInflated) {
  const auto dataset = dataset_of(12, {{FilterKind::kDeflate}});
  const std::string packed("\x78\x9c\x4b\x4c\x4a\x4e\x84\x21\x00\x1d\xe0\x04\x99", 13);
  EXPECT_EQ(*decoded(dataset, packed), "abcabcabcabc");
  std::string wrong_checksum = packed;
  wrong_checksum.back() = 'x';
  EXPECT_FALSE(decoded(dataset, wrong_checksum).ok());
  EXPECT_FALSE(decoded(dataset, packed.substr(0, 8)).ok());
}
#endif

TEST(ChunkCache, ForgetsWhatWasUsedLongAgo) {
  ChunkCache cache;
  for (uint64_t chunk = 0; chunk < 100; ++chunk) cache.add({.chunk = chunk}, 10);
  EXPECT_TRUE(cache.find({.chunk = 0}).empty());
  EXPECT_EQ(cache.find({.chunk = 99}).size(), 10u);
  cache.forget({.chunk = 99});
  EXPECT_TRUE(cache.find({.chunk = 99}).empty());
}

TEST(ChunkCache, HoldsALimitedNumberOfBytes) {
  ChunkCache cache;
  for (uint64_t chunk = 0; chunk < 5; ++chunk) cache.add({.chunk = chunk}, 10 << 20);
  EXPECT_TRUE(cache.find({.chunk = 1}).empty());
  EXPECT_FALSE(cache.find({.chunk = 3}).empty());
  EXPECT_EQ(cache.add({.chunk = 6}, 40 << 20).size(), 40u << 20);
  EXPECT_TRUE(cache.find({.chunk = 3}).empty());
}

// Reads rows of a dataset whose bytes are `file`.
Result<std::string> rows_of(const Hdf5Dataset& dataset, std::string_view file, Hdf5Rows rows) {
  io::MemoryEngine engine;
  const auto writer = *engine.create("x");
  RETURN_IF_ERROR(writer->write_at(0, bytes_of(file)));
  const auto reader = *engine.open("x");
  static uint64_t number = 1'000'000;
  const Hdf5Place place{nullptr, reader.get(), {.source = ++number}};
  std::string out(rows.count * dataset.row_bytes(), '?');
  RETURN_IF_ERROR(read_rows(dataset, place, rows, std::as_writable_bytes(std::span(out))));
  return out;
}

TEST(Hdf5Rows, AreGatheredFromChunks) {
  // 3 x 5 in chunks of 2 x 3: the chunks at the edges have bytes that belong to no element.
  Hdf5Dataset dataset = dataset_of(1, {});
  dataset.lengths = {3, 5};
  dataset.chunk_lengths = {2, 3};
  dataset.chunks = {{0, 6}, {6, 6}, {12, 6}, {}};
  ASSERT_TRUE(check_dataset(dataset).ok());
  const std::string_view file = "abcABCde.DE.xyz...";
  EXPECT_EQ(*rows_of(dataset, file, {0, 1}), "abcde");
  EXPECT_EQ(*rows_of(dataset, file, {1, 1}), "ABCDE");
  EXPECT_EQ(*rows_of(dataset, file, {2, 1}), "xyz\7\7");
  EXPECT_EQ(*rows_of(dataset, file, {0, 3}), "abcdeABCDExyz\7\7");
}

TEST(Hdf5Rows, ThatAreOneRunOfBytesAreReadInPlace) {
  Hdf5Dataset dataset = dataset_of(1, {});
  dataset.lengths = {4, 2};
  dataset.chunk_lengths = {2, 2};
  dataset.chunks = {{10, 4}, {20, 4}};
  EXPECT_EQ(direct_offset(dataset, {3, 1}), 22u);
  EXPECT_EQ(direct_offset(dataset, {1, 2}), std::nullopt);
  dataset.filters = {{FilterKind::kDeflate}};
  EXPECT_EQ(direct_offset(dataset, {3, 1}), std::nullopt);
}

TEST(Hdf5Rows, MustBeInTheFile) {
  Hdf5Dataset dataset = dataset_of(4, {});
  dataset.chunks = {{10, 4}};
  EXPECT_TRUE(check_within_file(dataset, 14).ok());
  EXPECT_THAT(check_within_file(dataset, 13).error().message(),
              HasSubstr("a chunk has 4 bytes at byte 10, but the file ends at 13"));
  EXPECT_THAT(rows_of(dataset, "short", {0, 4}).error().message(),
              HasSubstr("ends before byte 14"));
}

TEST(Hdf5Layout, ImpossibleNumbersAreRefused) {
  Hdf5Dataset dataset = dataset_of(4, {});
  EXPECT_TRUE(check_dataset(dataset).ok());
  dataset.chunk_lengths = {0};
  EXPECT_FALSE(check_dataset(dataset).ok());
  dataset.chunk_lengths = {2};
  EXPECT_THAT(check_dataset(dataset).error().message(), HasSubstr("1 of its 2 chunks are known"));
  dataset.kind = Hdf5Dataset::Kind::kContiguous;
  dataset.lengths = {uint64_t{1} << 40, uint64_t{1} << 40};
  EXPECT_THAT(check_layout({.datasets = {dataset}, .ignored = {}}).error().message(),
              HasSubstr("dataset 'x': its size does not fit into 63 bits"));
}

}  // namespace
}  // namespace millrace::format
