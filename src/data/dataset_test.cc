#include "data/dataset.h"

#include <gtest/gtest.h>

namespace millrace::data {
namespace {

TEST(Dataset, StoresADirectoryNameOnce) {
  DatasetBuilder builder;
  const std::string directory(1000, 'd');
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(builder.add_file(directory, fmt::format("{:04}.jpg", i), i % 10).ok());
  }
  const Dataset dataset = std::move(builder).build();
  EXPECT_EQ(dataset.sample_count(), 1000u);
  EXPECT_EQ(dataset.name(SampleId{7}), directory + "/0007.jpg");
  EXPECT_EQ(dataset.label(SampleId{17}), 7);
  EXPECT_LT(dataset.memory_bytes(), 1000 * (8 + 8 + 4 + 4) + 3000);
}

TEST(Dataset, DescribesAWholeFileWithoutItsLength) {
  DatasetBuilder builder;
  ASSERT_TRUE(builder.add_file("", "a.jpg").ok());
  ASSERT_TRUE(builder.add_file("/", "b.jpg").ok());
  const Dataset dataset = std::move(builder).build();
  EXPECT_EQ(dataset.extent(SampleId{1}), (Extent{.file = FileIndex{1}}));
  EXPECT_EQ(dataset.path(FileIndex{0}), "a.jpg");
  EXPECT_EQ(dataset.path(FileIndex{1}), "/b.jpg");
  EXPECT_EQ(dataset.label(SampleId{0}), std::nullopt);
}

TEST(Dataset, FindsRecordsListedSamplesAndWholeFilesTogether) {
  DatasetBuilder builder;
  ASSERT_TRUE(builder.add_file("x", "whole.npy").ok());
  ASSERT_TRUE(builder
                  .add_file("x/records.bin", {.kind = FileSamples::Kind::kRecords,
                                              .offset_bytes = 128,
                                              .record_bytes = 12,
                                              .record_count = 3})
                  .ok());
  ASSERT_TRUE(builder.add_file("x/empty.tar", {.kind = FileSamples::Kind::kListed}).ok());
  ASSERT_TRUE(builder
                  .add_file("x/0.tar", {.kind = FileSamples::Kind::kListed,
                                        .spans = {{0, 1024}, {1024, 2048}},
                                        .names = {"cat", "dog"},
                                        .labels = {3, -1}})
                  .ok());
  ASSERT_TRUE(builder.add_file("y", "last.npy", 9).ok());
  const Dataset dataset = std::move(builder).build();
  ASSERT_EQ(dataset.sample_count(), 7u);
  EXPECT_EQ(dataset.name(SampleId{0}), "x/whole.npy");
  EXPECT_EQ(dataset.name(SampleId{3}), "x/records.bin: record 2 at byte 152");
  EXPECT_EQ(dataset.extent(SampleId{3}),
            (Extent{.file = FileIndex{1}, .offset_bytes = 152, .size_bytes = 12}));
  EXPECT_EQ(dataset.name(SampleId{5}), "x/0.tar: sample 'dog' at byte 1024");
  EXPECT_EQ(dataset.extent(SampleId{5}),
            (Extent{.file = FileIndex{3}, .offset_bytes = 1024, .size_bytes = 2048}));
  EXPECT_EQ(dataset.name(SampleId{6}), "y/last.npy");
  EXPECT_EQ(dataset.extent(SampleId{6}), (Extent{.file = FileIndex{4}}));
  EXPECT_EQ(dataset.label(SampleId{0}), std::nullopt);
  EXPECT_EQ(dataset.label(SampleId{4}), 3);
  EXPECT_EQ(dataset.label(SampleId{5}), std::nullopt);
  EXPECT_EQ(dataset.label(SampleId{6}), 9);
}

TEST(Dataset, GroupsAreFilesAndCoverAllSamples) {
  DatasetBuilder builder;
  for (const uint64_t count : {2u, 0u, 3u}) {
    ASSERT_TRUE(builder
                    .add_file(fmt::format("{}.bin", count), {.kind = FileSamples::Kind::kRecords,
                                                             .record_bytes = 4,
                                                             .record_count = count})
                    .ok());
  }
  const Dataset dataset = std::move(builder).build();
  EXPECT_EQ(dataset.file_begin(0), SampleId{0});
  EXPECT_EQ(dataset.file_begin(1), SampleId{2});
  EXPECT_EQ(dataset.file_begin(2), SampleId{2});
  EXPECT_EQ(dataset.file_begin(3), SampleId{5});
  EXPECT_EQ(dataset.file_of(SampleId{2}), FileIndex{2});
}

TEST(Dataset, RefusesChecksumsForOnlySomeFiles) {
  DatasetBuilder builder;
  ASSERT_TRUE(
      builder
          .add_file("a.mrd",
                    {.kind = FileSamples::Kind::kListed, .spans = {{0, 4}}, .checksums = {7}})
          .ok());
  EXPECT_FALSE(builder.add_file("b", "c").ok());
}

TEST(Dataset, MayBeEmpty) {
  const Dataset dataset = DatasetBuilder().build();
  EXPECT_EQ(dataset.sample_count(), 0u);
  EXPECT_EQ(dataset.file_begin(0), SampleId{0});
}

}  // namespace
}  // namespace millrace::data
