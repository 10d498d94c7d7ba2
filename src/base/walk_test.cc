#include "base/walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "base/temporary_directory.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class WalkTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root_ / "train" / "cat");
    std::filesystem::create_directories(root_ / "valid");
    std::ofstream(root_ / "train" / "cat" / "1.jpg") << "x";
    std::ofstream(root_ / "valid" / "2.jpg") << "x";
    std::filesystem::create_directory_symlink(root_, root_ / "loop");
  }

  std::set<std::string> relative_paths(const WalkVisitor& also = {}) {
    std::set<std::string> paths;
    const auto counts = walk(root_, {.entry = [&](const WalkEntry& entry) {
                               paths.insert(entry.path.lexically_relative(root_).native());
                               return also.entry ? also.entry(entry) : WalkNext::kContinue;
                             }});
    EXPECT_TRUE(counts.ok());
    EXPECT_EQ(counts->entries, paths.size());
    return paths;
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::filesystem::path root_ = directory_.path();
};

TEST_F(WalkTest, FindsEveryEntryOnceAndEndsDespiteLoops) {
  EXPECT_THAT(relative_paths(),
              ElementsAre("loop", "train", "train/cat", "train/cat/1.jpg", "valid", "valid/2.jpg"));
}

TEST_F(WalkTest, DoesNotEnterASkippedDirectory) {
  const auto paths = relative_paths({.entry = [](const WalkEntry& entry) {
    return entry.path.filename() == "train" ? WalkNext::kSkipDirectory : WalkNext::kContinue;
  }});
  EXPECT_THAT(paths, ElementsAre("loop", "train", "valid", "valid/2.jpg"));
}

TEST_F(WalkTest, StopsWhenTold) {
  const auto paths = relative_paths({.entry = [](const WalkEntry&) { return WalkNext::kStop; }});
  EXPECT_EQ(paths.size(), 1u);
}

TEST_F(WalkTest, TellsTheKinds) {
  std::map<std::string, EntryKind> kinds;
  ASSERT_TRUE(walk(root_, {.entry =
                               [&](const WalkEntry& entry) {
                                 kinds[entry.path.filename()] = entry.kind;
                                 return WalkNext::kContinue;
                               }})
                  .ok());
  EXPECT_EQ(kinds["loop"], EntryKind::kSymlink);
  EXPECT_EQ(kinds["train"], EntryKind::kDirectory);
  EXPECT_EQ(kinds["1.jpg"], EntryKind::kFile);
}

TEST_F(WalkTest, ADirectoryThatVanishesIsReportedAndPassedOver) {
  std::vector<std::string> errors;
  const auto counts =
      walk(root_, {.entry =
                       [&](const WalkEntry& entry) {
                         if (entry.path.filename() == "valid")
                           std::filesystem::remove_all(entry.path);
                         return WalkNext::kContinue;
                       },
                   .error = [&](const Error& error) { errors.push_back(error.message()); }});
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(counts->errors, 1u);
  EXPECT_THAT(errors, ElementsAre(HasSubstr("valid: cannot list: no such file or directory")));
}

TEST_F(WalkTest, ARootThatIsNotThereOrNoDirectoryFails) {
  const WalkVisitor nobody{.entry = [](const WalkEntry&) { return WalkNext::kContinue; }};
  EXPECT_EQ(walk(root_ / "absent", nobody).error().code(), Errc::kNotFound);
  EXPECT_EQ(walk(root_ / "valid" / "2.jpg", nobody).error().code(), Errc::kNotFound);
}

}  // namespace
}  // namespace millrace
