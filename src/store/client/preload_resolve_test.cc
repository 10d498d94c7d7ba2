#include <errno.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/pack/catalogue.h"
#include "store/pack/tree.h"
#include "store/preload/resolve.h"

namespace millrace::store {
namespace {

using wire::EntryKind;

Member member(const std::string& path, EntryKind kind, const std::string& target = "") {
  Member made{.path = path, .target = target};
  made.entry.kind = kind;
  made.entry.mode = 0644;
  return made;
}

class ResolveTest : public testing::Test {
 protected:
  ResolveTest() {
    const auto tree = tree_of({
        member("a/b/file", EntryKind::kFile),
        member("a/empty", EntryKind::kDirectory),
        member("a/.hidden", EntryKind::kFile),
        member("to_b", EntryKind::kLink, "a/b"),
        member("a/up", EntryKind::kLink, "../a/b/file"),
        member("slash", EntryKind::kLink, "a/b/"),
        member("loop", EntryKind::kLink, "loop"),
        member("gone", EntryKind::kLink, "nothing/there"),
        member("escape", EntryKind::kLink, "../../etc/passwd"),
        member("out", EntryKind::kLink, "/elsewhere/x"),
        member("back", EntryKind::kLink, "/data/set/a"),
    });
    EXPECT_TRUE(tree.ok());
    const std::vector<PartitionInfo> partitions = {{.name = "part-00000.pack", .file_bytes = 4096}};
    bytes_ = encode_catalogue({.tree = *tree, .partitions = partitions, .origin = ""});
    EXPECT_EQ(view_.open(bytes_.data(), bytes_.size()), nullptr);
  }

  Place walk(std::string_view path, Last last = Last::kFollow, std::string_view base = "") {
    return walk_path({view_, "/data/set"}, view_.find(base), path, last, *walk_);
  }
  // "a/b" for an entry, "-> /x" elsewhere, or the name of the error.
  std::string resolve(std::string_view path, Last last = Last::kFollow,
                      std::string_view base = "") {
    const Place place = walk(path, last, base);
    if (place.where == Where::kFailed) return strerrorname_np(place.error);
    if (place.where == Where::kElsewhere) return std::string("-> ") + place.path;
    char text[kPathBytes];
    return {text, write_path(view_, place.entry, text, sizeof(text))};
  }

  std::string bytes_;
  wire::CatalogueView view_;
  std::unique_ptr<Walk> walk_ = std::make_unique<Walk>();
};

TEST_F(ResolveTest, SlashesAndDotsMeanTheSamePath) {
  EXPECT_EQ(resolve("/a/b/file"), "a/b/file");
  EXPECT_EQ(resolve("//a/./b//file"), "a/b/file");
  EXPECT_EQ(resolve("/a/empty/../b/file"), "a/b/file");
  EXPECT_EQ(resolve("a/b/"), "a/b");
  EXPECT_EQ(resolve(""), "");
  EXPECT_EQ(resolve("../b/./file", Last::kFollow, "a/empty"), "a/b/file");
}

TEST_F(ResolveTest, LinksAreFollowedAnywhere) {
  EXPECT_EQ(resolve("to_b/file"), "a/b/file");
  EXPECT_EQ(resolve("a/up"), "a/b/file");
  EXPECT_EQ(resolve("slash/file"), "a/b/file");
  EXPECT_EQ(resolve("to_b/../empty"), "a/empty");
  EXPECT_EQ(resolve("back/b"), "a/b");
}

TEST_F(ResolveTest, TheLastLinkIsKeptIfAskedUnlessASlashFollows) {
  EXPECT_EQ(resolve("to_b", Last::kKeepLink), "to_b");
  EXPECT_EQ(resolve("to_b/", Last::kKeepLink), "a/b");
  EXPECT_EQ(resolve("loop", Last::kKeepLink), "loop");
}

TEST_F(ResolveTest, ErrorsAreThoseOfTheKernel) {
  EXPECT_EQ(resolve("a/b/file/"), "ENOTDIR");
  EXPECT_EQ(resolve("a/b/file/x"), "ENOTDIR");
  EXPECT_EQ(resolve("a/b/file/.."), "ENOTDIR");
  EXPECT_EQ(resolve("loop"), "ELOOP");
  EXPECT_EQ(resolve("gone"), "ENOENT");
  EXPECT_EQ(resolve(std::string(256, 'x')), "ENAMETOOLONG");
  EXPECT_EQ(resolve(std::string(5000, '/')), "ENAMETOOLONG");
}

TEST_F(ResolveTest, OnlyTheLastComponentMayBeCreated) {
  EXPECT_TRUE(walk("a/new").is_new);
  EXPECT_TRUE(walk("a/new/").is_new);
  EXPECT_FALSE(walk("a/new/file").is_new);
}

// What programs have created, by name: a target if it is a link, or "" otherwise.
const std::map<std::string, std::string, std::less<>>& created() {
  static const std::map<std::string, std::string, std::less<>> names = {
      {"new", ""},
      {"new/sub", ""},
      {"new/file", ""},
      {"latest", "new/file"},
      {"a/to_file", "b/file"},
      {"absolute", "/data/set/new"},
      {"dangling", "new/no"},
      {"circle", "circle"}};
  return names;
}

long read_created_link(std::string_view path, char* out, size_t room) {
  const bool asks_for_directory = path.ends_with("/.");
  if (asks_for_directory) path.remove_suffix(2);
  const auto found = created().find(path);
  if (found == created().end()) return -ENOENT;
  if (asks_for_directory && path.ends_with("file")) return -ENOTDIR;
  if (found->second.empty()) return -EINVAL;
  return static_cast<long>(found->second.copy(out, room));
}

TEST_F(ResolveTest, AbsoluteTargetsAndDotsLeaveTheRootAndMayLeadBack) {
  EXPECT_EQ(resolve("../set/a/b/file"), resolve("a/b/file"));
  EXPECT_EQ(resolve("escape"), "-> /data/../etc/passwd");
  EXPECT_EQ(resolve("out"), "-> /elsewhere/x");
  EXPECT_EQ(resolve("out/y"), "-> /elsewhere/x/y");
  EXPECT_EQ(resolve(".."), "-> /data/");
  EXPECT_EQ(resolve("a/../../other/x"), "-> /data/other/x");
}

TEST_F(ResolveTest, APlainPathIsFoundByOneProbe) {
  EXPECT_EQ(find_plain(view_, "/a/b/file", Last::kFollow), view_.find("a/b/file"));
  EXPECT_EQ(find_plain(view_, "", Last::kFollow), wire::kRootEntry);
  EXPECT_EQ(find_plain(view_, "/to_b", Last::kKeepLink), view_.find("to_b"));
  EXPECT_EQ(find_plain(view_, "/to_b", Last::kFollow), wire::kNoEntry);
  EXPECT_EQ(find_plain(view_, "/a//b", Last::kFollow), wire::kNoEntry);
  EXPECT_EQ(find_plain(view_, "/a/b/", Last::kFollow), wire::kNoEntry);
  EXPECT_EQ(find_plain(view_, "/a/.hidden", Last::kFollow), view_.find("a/.hidden"));
}

TEST_F(ResolveTest, OnlyWholeComponentsAreBelowTheRoot) {
  EXPECT_EQ(below_root("/data/set", "/data/set/x"), "/x");
  EXPECT_NE(below_root("/data/set", "/data/set").data(), nullptr);
  EXPECT_EQ(below_root("/data/set", "/data/settle").data(), nullptr);
  EXPECT_EQ(below_root("/data/set", "/data").data(), nullptr);
}

TEST_F(ResolveTest, WhatProgramsCreatedIsInTheUpperDirectory) {
  const Catalogued tree = {view_, "/data/set", {"/upper", read_created_link}};
  const auto place = [&](std::string_view path, Last last = Last::kFollow) {
    const Place found = walk_path(tree, wire::kRootEntry, path, last, *walk_);
    if (found.where == Where::kInside) return std::string("packed");
    const std::string error = found.where == Where::kFailed ? strerrorname_np(found.error) : "";
    return found.path == nullptr ? error : error + found.path;
  };
  EXPECT_EQ(place("new/file"), "/upper/new/file");
  EXPECT_EQ(place("new/sub/"), "/upper/new/sub/");
  EXPECT_EQ(place("new/../a/b/file"), "packed");
  EXPECT_EQ(place("new/sub/../file"), "/upper/new/file");
  EXPECT_EQ(place("latest"), "/upper/new/file");
  EXPECT_EQ(place("latest", Last::kKeepLink), "/upper/latest");
  EXPECT_EQ(place("a/to_file"), "packed");
  EXPECT_EQ(place("absolute/file"), "/upper/new/file");
  EXPECT_EQ(place("dangling"), "ENOENT/upper/new/no");
  EXPECT_EQ(place("circle"), "ELOOP");
  EXPECT_EQ(place("a/other"), "ENOENT/upper/a/other");
  EXPECT_EQ(place("a/other/x"), "ENOENT");
  EXPECT_EQ(place("latest/.."), "ENOTDIR");
  EXPECT_EQ(place("new/sub/../../../away"), "/data/away");
  EXPECT_EQ(walk_path(tree, wire::kRootEntry, "a/b/x", Last::kFollow, *walk_).entry,
            view_.find("a/b"));
}

TEST_F(ResolveTest, WithoutAnUpperDirectoryANewNameHasNoPlace) {
  const Place place =
      walk_path({view_, "/data/set"}, wire::kRootEntry, "new", Last::kFollow, *walk_);
  EXPECT_TRUE(place.is_new);
  EXPECT_EQ(place.path, nullptr);
}

}  // namespace
}  // namespace millrace::store
