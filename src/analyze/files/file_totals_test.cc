#include "analyze/files/file_totals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "analyze/files/file_kinds.h"

namespace millrace::analyze {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(Coverage, ASmallFileReadInPiecesIsCountedOnce) {
  Coverage coverage;
  coverage.add({0, 4096}, 0);
  coverage.add({4096, 10000}, 0);
  coverage.add({0, 10000}, 0);
  EXPECT_EQ(coverage.unique_bytes(), 10000u);
  EXPECT_EQ(coverage.shared_bytes(), 0u);
}

TEST(Coverage, BytesThatTwoGroupsReadAreShared) {
  Coverage coverage;
  coverage.add({0, 10000}, 0);
  coverage.add({0, 10000}, 5);
  EXPECT_EQ(coverage.shared_bytes(), 10000u);
}

TEST(Coverage, PartsOfALargeFileThatGroupsReadSeparatelyAreNotShared) {
  Coverage coverage;
  for (int epoch = 0; epoch < 3; ++epoch) {
    coverage.add({8 * kMiB, 16 * kMiB}, 0);
    coverage.add({16 * kMiB, 32 * kMiB}, 1);
  }
  EXPECT_EQ(coverage.unique_bytes(), 24 * kMiB);
  EXPECT_EQ(coverage.shared_bytes(), 0u);
}

TEST(Coverage, DoesNotDependOnOrderOrMerging) {
  std::mt19937_64 random(7);
  std::vector<std::pair<Extent, uint32_t>> reads;
  for (int i = 0; i < 400; ++i) {
    const uint64_t begin = random() % (uint64_t{1} << (12 + random() % 26));
    reads.push_back({{begin, begin + 1 + random() % kMiB}, static_cast<uint32_t>(random() % 3)});
  }
  Coverage forward;
  for (const auto& [extent, group] : reads) forward.add(extent, group);
  std::shuffle(reads.begin(), reads.end(), random);
  Coverage parts[4];
  for (size_t i = 0; i < reads.size(); ++i) parts[i % 4].add(reads[i].first, reads[i].second);
  Coverage merged;
  for (const Coverage& part : parts) {
    std::vector<std::byte> saved;
    part.save(saved);
    ByteReader reader(saved);
    const auto loaded = Coverage::load(reader);
    ASSERT_TRUE(loaded.ok());
    merged.merge(*loaded);
  }
  EXPECT_EQ(merged.unique_bytes(), forward.unique_bytes());
  EXPECT_EQ(merged.shared_bytes(), forward.shared_bytes());
  std::vector<std::byte> a;
  std::vector<std::byte> b;
  forward.save(a);
  merged.save(b);
  EXPECT_EQ(a, b);
}

TEST(Coverage, RejectsInvalidBytes) {
  Coverage coverage;
  coverage.add({100 * kMiB, 200 * kMiB}, 1);
  std::vector<std::byte> saved;
  coverage.save(saved);
  for (size_t length = 0; length < saved.size(); length += 7) {
    ByteReader reader(ByteView(saved).first(length));
    EXPECT_FALSE(Coverage::load(reader).ok()) << length;
  }
}

TEST(GroupBits, AboveSixtyFourGroupsNeighborsShareABit) {
  EXPECT_EQ(group_bit(3, 8), 8u);
  EXPECT_EQ(group_bit(127, 128), uint64_t{1} << 63);
  EXPECT_EQ(count_groups(~uint64_t{0}, 1000), 1000u);
  EXPECT_EQ(count_groups(5, 8), 2u);
}

TEST(FileKinds, DistinguishesProgramsFromData) {
  for (const char* path : {"/usr/lib/libc.so.6", "/proc/self/maps", "/job/train.py", "",
                           "/env/lib/python3.11/site-packages/torch/x.json", "pipe:[3]", "<socket>",
                           "/dev/shm/torch_12_3", "/dev/shm/vader_segment.node.0.1",
                           "/dev/shm/sem.mp-x", "/job/env/pyvenv.cfg", "/data/.lock"}) {
    EXPECT_TRUE(is_system_path(path)) << path;
  }
  for (const char* path : {"/data/train/a.jpg", "/dev/shm/cache/a.npy", "/data/x.h5",
                           "/dev/shm/torch_data/a.npy", "/data/padlock"}) {
    EXPECT_FALSE(is_system_path(path)) << path;
  }
}

TEST(FileKinds, FindsTheExtension) {
  EXPECT_EQ(extension_of("/d/a.JPG"), ".jpg");
  EXPECT_EQ(extension_of("/d/brain.nii.gz"), ".nii.gz");
  EXPECT_EQ(extension_of("/d/part.00017"), "(none)");
  EXPECT_EQ(extension_of("/d.x/file"), "(none)");
  EXPECT_EQ(extension_of("/d/.hidden"), "(none)");
  EXPECT_EQ(directory_of("/d/a"), "/d");
  EXPECT_EQ(directory_of("/a"), "/");
  EXPECT_EQ(directory_of("a"), "(none)");
}

}  // namespace
}  // namespace millrace::analyze
