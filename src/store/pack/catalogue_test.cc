#include "store/pack/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/hash/crc32c.h"
#include "base/io/temporary_directory.h"

namespace millrace::store {
namespace {

using testing::HasSubstr;
using wire::CatalogueEntry;
using wire::CatalogueHeader;
using wire::EntryKind;

const std::vector<PartitionInfo> kOnePartition = {{.name = "part-00000.pack", .file_bytes = 1000}};

Member file(std::string path, uint64_t offset_bytes = 64, uint64_t size_bytes = 10) {
  Member made{.path = std::move(path)};
  made.entry.kind = EntryKind::kFile;
  made.entry.offset_bytes = offset_bytes;
  made.entry.size_bytes = made.entry.packed_bytes = size_bytes;
  return made;
}

std::string bytes_for(std::vector<Member> members) {
  const auto tree = tree_of(std::move(members));
  EXPECT_TRUE(tree.ok());
  return encode_catalogue(
      {.tree = *tree, .partitions = kOnePartition, .origin = "/data/set", .identity = 5});
}

std::string small_catalogue() {
  Member link{.path = "a/link", .target = "../b"};
  link.entry.kind = EntryKind::kLink;
  Member empty{.path = "empty"};
  empty.entry.kind = EntryKind::kDirectory;
  return bytes_for({file("a/1"), file("a/2", 128), file("b", 192), link, empty});
}

void seal(std::string& bytes) {
  CatalogueHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.body_crc32c = crc32c(bytes_of(bytes).subspan(sizeof(header)));
  header.crc32c =
      crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(CatalogueHeader, crc32c)));
  std::memcpy(bytes.data(), &header, sizeof(header));
}

// What opening says after a change of one entry, with checksums that are right again.
std::string after_change(const std::string& path, void (*change)(CatalogueEntry& entry)) {
  std::string bytes = small_catalogue();
  const uint32_t index = *Catalogue::of_bytes(bytes)->find(path);
  CatalogueEntry entry;
  char* place = bytes.data() + sizeof(CatalogueHeader) + index * sizeof(entry);
  std::memcpy(&entry, place, sizeof(entry));
  change(entry);
  std::memcpy(place, &entry, sizeof(entry));
  seal(bytes);
  const auto opened = Catalogue::of_bytes(bytes);
  return opened.ok() ? "fine" : opened.error().message();
}

TEST(Catalogue, FindsEveryPathAndNothingElse) {
  const auto catalogue = Catalogue::of_bytes(small_catalogue());
  ASSERT_TRUE(catalogue.ok());
  for (const char* path : {"", "a", "a/1", "a/2", "a/link", "b", "empty"}) {
    const auto index = catalogue->find(path);
    ASSERT_TRUE(index) << path;
    EXPECT_EQ(catalogue->path(*index), path);
  }
  for (const char* path : {"/", "/a", "a/", "a/3", "1", "a/1/x", "c", "a//1", "."}) {
    EXPECT_FALSE(catalogue->find(path)) << path;
  }
  EXPECT_TRUE(check_lookups(*catalogue).ok());
  EXPECT_EQ(catalogue->origin(), "/data/set");
  EXPECT_EQ(catalogue->link_target(*catalogue->find("a/link")), "../b");
  EXPECT_EQ(catalogue->file_count(), 3u);
  EXPECT_EQ(catalogue->partition_name(0), "part-00000.pack");
}

TEST(Catalogue, GuessesAreRightForPathsThatExist) {
  const auto catalogue = Catalogue::of_bytes(small_catalogue());
  for (const char* path : {"a", "a/1", "a/2", "a/link", "b", "empty"}) {
    const uint32_t guessed = catalogue->view().guess(path);
    EXPECT_EQ(guessed, *catalogue->find(path)) << path;
    EXPECT_TRUE(catalogue->view().has_path(guessed, path)) << path;
  }
  for (const char* path : {"/", "a/", "a/3", "1", "."}) {
    EXPECT_EQ(catalogue->view().guess(path), wire::kNoEntry) << path;
  }
}

TEST(Catalogue, ListsADirectoryInOrder) {
  const auto catalogue = Catalogue::of_bytes(small_catalogue());
  const auto children = catalogue->children(*catalogue->find("a"));
  ASSERT_EQ(children.count, 3u);
  EXPECT_EQ(catalogue->name(children.first), "1");
  EXPECT_EQ(catalogue->name(children.first + 2), "link");
  EXPECT_EQ(catalogue->children(*catalogue->find("empty")).count, 0u);
  EXPECT_EQ(catalogue->children(*catalogue->find("b")).count, 0u);
}

TEST(Catalogue, AnEmptyTreeIsValid) {
  const auto catalogue = Catalogue::of_bytes(bytes_for({}));
  ASSERT_TRUE(catalogue.ok());
  EXPECT_EQ(catalogue->entry_count(), 1u);
  EXPECT_FALSE(catalogue->find("x"));
}

TEST(Catalogue, LongPathsAreFound) {
  std::string path = "d";
  for (int i = 0; i < 50; ++i) path += "/" + std::string(255, 'd');
  const auto catalogue = Catalogue::of_bytes(bytes_for({file(path)}));
  ASSERT_TRUE(catalogue.ok());
  ASSERT_TRUE(catalogue->find(path));
  EXPECT_EQ(catalogue->path(*catalogue->find(path)), path);
}

// The target of the issue: 10 million files in at most 128 bytes each.
TEST(Catalogue, TakesAtMost128BytesForAFile) {
  for (const size_t count : {size_t{1000}, size_t{12'500}, size_t{98'305}, size_t{100'000}}) {
    std::vector<Member> members;
    for (size_t i = 0; i < count; ++i) {
      members.push_back(file(fmt::format("class-{:03}/{:024}", i % 100, i)));  // 24 bytes
    }
    const auto catalogue = Catalogue::of_bytes(bytes_for(std::move(members)));
    ASSERT_TRUE(catalogue.ok());
    EXPECT_LE(catalogue->size_bytes(), count * 128 + 20'000) << count;
    EXPECT_TRUE(catalogue->find(fmt::format("class-{:03}/{:024}", (count - 1) % 100, count - 1)));
  }
}

TEST(Catalogue, EveryFlippedBitIsNoticed) {
  const std::string good = small_catalogue();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(Catalogue::of_bytes(bad).ok()) << "byte " << i;
  }
}

TEST(Catalogue, EveryTruncationIsNoticed) {
  const std::string good = small_catalogue();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(Catalogue::of_bytes(good.substr(0, length)).ok()) << length;
  }
}

TEST(Catalogue, DamageBehindRightChecksumsIsNoticed) {
  EXPECT_EQ(after_change("b", [](CatalogueEntry&) {}), "fine");
  EXPECT_THAT(after_change("a/1", [](CatalogueEntry& e) { e.parent = 9; }),
              HasSubstr("comes later"));
  EXPECT_THAT(after_change("a/1", [](CatalogueEntry& e) { e.parent = 0; }),
              HasSubstr("not among the children"));
  EXPECT_THAT(after_change("b", [](CatalogueEntry& e) { e.name_bytes = 0; }),
              HasSubstr("is empty"));
  EXPECT_THAT(after_change("b", [](CatalogueEntry& e) { e.name_offset = 1u << 30; }),
              HasSubstr("is empty"));
  EXPECT_THAT(after_change("b", [](CatalogueEntry& e) { e.offset_bytes = 991; }),
              HasSubstr("10 bytes at byte 991 of partition 0, which has 1000"));
  EXPECT_THAT(after_change("b", [](CatalogueEntry& e) { e.packed_bytes = ~uint64_t{}; }),
              HasSubstr("which has 1000"));
  EXPECT_THAT(after_change("b", [](CatalogueEntry& e) { e.partition = 1; }),
              HasSubstr("in partition 1"));
  EXPECT_THAT(after_change("b", [](CatalogueEntry& e) { e.codec = wire::PackCodec{9}; }),
              HasSubstr("codec"));
  EXPECT_THAT(after_change("b", [](CatalogueEntry& e) { e.kind = EntryKind{7}; }),
              HasSubstr("kind (7)"));
  EXPECT_THAT(after_change("b", [](CatalogueEntry& e) { e.size_bytes = 11; }),
              HasSubstr("stored raw"));
  EXPECT_THAT(after_change("b", [](CatalogueEntry& e) { e.mode = 0100644; }), HasSubstr("mode"));
  EXPECT_THAT(after_change("a", [](CatalogueEntry& e) { e.size_bytes = 99; }),
              HasSubstr("99 children"));
  EXPECT_THAT(after_change("empty", [](CatalogueEntry& e) { e.offset_bytes = 1; }),
              HasSubstr("children start at entry 1"));
  EXPECT_THAT(after_change("a/link", [](CatalogueEntry& e) { e.size_bytes = 1u << 20; }),
              HasSubstr("target"));
  EXPECT_THAT(after_change("", [](CatalogueEntry& e) { e.kind = EntryKind::kFile; }),
              HasSubstr("root"));
}

TEST(CatalogueView, IsSafeEvenIfEntriesAreNonsense) {
  const std::string good = small_catalogue();
  for (size_t i = sizeof(CatalogueHeader); i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(0xff);
    wire::CatalogueView view;
    if (view.open(bad.data(), bad.size()) != nullptr) continue;
    for (const char* path : {"a", "a/1", "b", "empty", "nothing"}) {
      const uint32_t guessed = view.guess(path);
      EXPECT_TRUE(guessed == wire::kNoEntry || guessed < view.entry_count());
      const uint32_t index = view.find(path);
      EXPECT_TRUE(index == wire::kNoEntry || index < view.entry_count());
    }
  }
}

TEST(CatalogueView, InodesAreNotZero) { EXPECT_EQ(wire::inode_of(wire::kRootEntry), 1u); }

TEST(CatalogueView, ModesHaveTheirKind) {
  CatalogueEntry entry{};
  entry.kind = EntryKind::kDirectory;
  entry.mode = 0755;
  EXPECT_EQ(wire::stat_mode(entry), 0040755u);
}

}  // namespace
}  // namespace millrace::store
