#include "bench/workload/own_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "base/io/temporary_directory.h"

namespace millrace::bench {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class OwnFilesTest : public testing::Test {
 protected:
  // A folder with the files a and b, which are listed.
  OwnFilesTest() {
    fs::create_directory(folder());
    write("a", "text");
    write("b", "text");
    list({"a", "b"});
  }
  fs::path folder() const { return directory_.path() / "folder"; }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream(folder() / name) << text;
  }
  void list(const std::vector<std::string>& names) const {
    const auto files = look_at_files(folder(), names);
    ASSERT_TRUE(files.ok()) << files.error().message();
    ASSERT_TRUE(write_own_files(folder(), own_files_text(*files)).ok());
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

TEST_F(OwnFilesTest, AFolderOfOwnFilesIsRemoved) {
  EXPECT_THAT(*find_foreign(folder()), IsEmpty());
  EXPECT_THAT(*remove_own_files(folder()), IsEmpty());
  EXPECT_FALSE(fs::exists(folder()));
  EXPECT_THAT(*find_foreign(folder()), IsEmpty());
  EXPECT_THAT(*remove_own_files(folder()), IsEmpty());
}

TEST_F(OwnFilesTest, ForeignFilesStay) {
  write("mine", "text");
  fs::create_directory(folder() / "deep");
  fs::create_symlink("/", folder() / "link");
  EXPECT_THAT(*find_foreign(folder()), ElementsAre("deep", "link", "mine"));
  EXPECT_THAT(*remove_own_files(folder()), ElementsAre("deep", "link", "mine"));
  EXPECT_THAT(*find_foreign(folder()), ElementsAre("deep", "link", "mine"));
  EXPECT_FALSE(fs::exists(folder() / "a"));
  for (const char* name : {"deep", "link", "mine"}) fs::remove(folder() / name);
  EXPECT_THAT(*remove_own_files(folder()), IsEmpty());
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(OwnFilesTest, AFileThatWasChangedOrReplacedIsForeign) {
  write("a", "more text");
  fs::remove(folder() / "b");
  write("b", "text");
  EXPECT_THAT(*find_foreign(folder()), ElementsAre("a", "b"));
  list({"a", "b"});
  write("a", "MORE TEXT");  // the same length and inode, later
  fs::remove(folder() / "b");
  fs::create_symlink("a", folder() / "b");
  EXPECT_THAT(*remove_own_files(folder()), ElementsAre("a", "b"));
  EXPECT_TRUE(fs::exists(folder() / "a"));
}

TEST_F(OwnFilesTest, WithoutAListEverythingIsForeign) {
  fs::remove(folder() / kOwnFilesName);
  EXPECT_THAT(*remove_own_files(folder()), ElementsAre("a", "b"));
  for (const std::string_view text : {"", "a\n", "4 5\n", "4 x 7 a\n", "- - - ", "- - - a"}) {
    ASSERT_TRUE(write_own_files(folder(), text).ok());
    EXPECT_THAT(*remove_own_files(folder()), ElementsAre(kOwnFilesName, "a", "b")) << text;
  }
}

TEST_F(OwnFilesTest, NamesDecideWhileFilesAreIncomplete) {
  const OwnFile files[] = {{.name = "a", .identity = {}}, {.name = "later", .identity = {}}};
  ASSERT_TRUE(write_own_files(folder(), own_files_text(files)).ok());
  fs::remove(folder() / "b");
  write("a", "half");
  EXPECT_THAT(*remove_own_files(folder()), IsEmpty());
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(OwnFilesTest, FilesGoByNameOnRequest) {
  write("mine", "text");
  fs::create_directory(folder() / "c");
  const auto is_short = [](const std::string& name) { return name.size() == 1; };
  EXPECT_THAT(*remove_files_if(folder(), is_short), ElementsAre("c", "mine"));
  EXPECT_FALSE(fs::exists(folder() / "a"));
}

TEST_F(OwnFilesTest, NamesInAListDoNotLeadOut) {
  std::ofstream(directory_.path() / "precious") << "text";
  ASSERT_TRUE(write_own_files(folder(), "- - - ../precious\n- - - a\n- - - b\n").ok());
  EXPECT_THAT(*remove_own_files(folder()), IsEmpty());
  EXPECT_TRUE(fs::exists(directory_.path() / "precious"));
}

TEST_F(OwnFilesTest, ALinkToAFolderIsForeign) {
  fs::create_directory_symlink(folder(), directory_.path() / "link");
  EXPECT_THAT(*find_foreign(directory_.path() / "link"), ElementsAre("link"));
  EXPECT_FALSE(remove_own_files(directory_.path() / "link").ok());
  EXPECT_TRUE(fs::exists(folder() / "a"));
}

TEST_F(OwnFilesTest, AFolderHasSeveralLists) {
  const OwnFile other[] = {{.name = "c", .identity = {}}};
  ASSERT_TRUE(write_own_files(folder(), own_files_text(other), "-7").ok());
  write("c", "text");
  EXPECT_THAT(*remove_own_files(folder()), IsEmpty());
  EXPECT_FALSE(fs::exists(folder()));
}

}  // namespace
}  // namespace millrace::bench
