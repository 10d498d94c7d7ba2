#include "replay/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "replay/testing/call_trace.h"

namespace millrace::replay {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using wire::Call;

const std::vector<Recorded> kReadsTwo = {
    {.call = Call::kOpen, .file = "/d/x/a", .result = 3},
    {.call = Call::kRead, .file = "/d/x/a", .offset = 0, .size = 10000, .result = 10000},
    {.call = Call::kStat, .file = "/d/b", .size = 77},
    {.call = Call::kStat, .file = "/d/missing", .result = -1}};

class PrepareTest : public testing::Test {
 protected:
  std::string onto(std::string_view below = "") const {
    return (directory_.path() / "onto" / below).string();
  }
  mode_t mode(const std::string& path) const {
    struct stat status{};
    EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

TEST_F(PrepareTest, CreatesPrivateFilesOfTheRecordedSizes) {
  const Plan plan = CallTrace(kReadsTwo).plan();
  const auto prepared = prepare(plan, {.onto = onto()});
  ASSERT_TRUE(prepared.ok()) << prepared.error().message();
  EXPECT_EQ(prepared->file_count, 2u);
  EXPECT_EQ(prepared->size_bytes, 10077u);
  EXPECT_EQ(fs::file_size(onto("x/a")), 10000u);
  EXPECT_EQ(fs::file_size(onto("b")), 77u);
  EXPECT_FALSE(fs::exists(onto("missing")));
  EXPECT_EQ(mode(onto("x/a")), 0600u);
  EXPECT_EQ(mode(onto("x")), 0700u);
  EXPECT_EQ(clean(plan, *prepared), 0u);
  EXPECT_FALSE(fs::exists(onto()));
}

TEST_F(PrepareTest, FilledFilesHaveRandomBytes) {
  const Plan plan = CallTrace(kReadsTwo).plan();
  ASSERT_TRUE(prepare(plan, {.onto = onto(), .fill = true}).ok());
  const std::string text = *read_file(onto("x/a"));
  ASSERT_EQ(text.size(), 10000u);
  EXPECT_LT(std::count(text.begin(), text.end(), '\0'), 100);
  EXPECT_NE(text.substr(0, 4096), text.substr(4096, 4096));
}

TEST_F(PrepareTest, ExistingFilesAreKept) {
  fs::create_directories(onto("x"));
  std::ofstream(onto("x/a")) << "short";
  const Plan plan = CallTrace(kReadsTwo).plan();
  const auto prepared = prepare(plan, {.onto = onto()});
  ASSERT_TRUE(prepared.ok()) << prepared.error().message();
  EXPECT_EQ(prepared->existing_count, 1u);
  EXPECT_EQ(prepared->too_small_count, 1u);
  EXPECT_EQ(*read_file(onto("x/a")), "short");
  clean(plan, *prepared);
  EXPECT_EQ(*read_file(onto("x/a")), "short");
  EXPECT_FALSE(fs::exists(onto("b")));
}

TEST_F(PrepareTest, ExistingFilesAreModifiedOnlyOnRequest) {
  CallTrace trace(
      {{.call = Call::kOpen, .file = "/d/a", .result = 3, .detail = O_WRONLY | O_CREAT | O_EXCL},
       {.call = Call::kMkdir, .file = "/d/sub"}});
  const Plan plan = trace.plan();
  fs::create_directories(onto("sub"));
  EXPECT_THAT(prepare(plan, {.onto = onto()}).error().message(), HasSubstr("--overwrite"));
  fs::remove(onto("sub"));
  std::ofstream(onto("a")) << "mine";
  EXPECT_THAT(prepare(plan, {.onto = onto()}).error().message(), HasSubstr("--overwrite"));
  EXPECT_EQ(*read_file(onto("a")), "mine");
  EXPECT_TRUE(prepare(plan, {.onto = onto(), .overwrite = true}).ok());
  EXPECT_FALSE(fs::exists(onto("a")));
}

TEST_F(PrepareTest, OnlyExistingFilesAreUsedOnRequest) {
  const PrepareOptions options{.onto = onto(), .only_existing = true};
  const Plan reads = CallTrace(kReadsTwo).plan();
  EXPECT_THAT(prepare(reads, options).error().message(), HasSubstr("no such folder"));
  fs::create_directories(onto("x"));
  std::ofstream(onto("x/a")) << "short";
  EXPECT_THAT(prepare(reads, options).error().message(), HasSubstr("/b: the trace reads it"));
  EXPECT_FALSE(fs::exists(onto("b")));
  std::ofstream(onto("b")) << "there";
  EXPECT_TRUE(prepare(reads, options).ok());

  const Plan writes = CallTrace({{.call = Call::kOpen,
                                  .file = "/d/b",
                                  .result = 3,
                                  .detail = O_WRONLY | O_CREAT | O_EXCL}})
                          .plan({.root = "/d"});
  EXPECT_THAT(prepare(writes, options).error().message(), HasSubstr("creates or modifies /d/b"));
  EXPECT_EQ(*read_file(onto("b")), "there");
}

TEST_F(PrepareTest, SymbolicLinksAreRefusedAnywhereOnTheWay) {
  const Plan plan = CallTrace(kReadsTwo).plan();
  fs::create_directories(onto());
  fs::create_directories(directory_.path() / "outside");
  fs::create_symlink(directory_.path() / "outside", onto("x"));
  EXPECT_THAT(prepare(plan, {.onto = onto()}).error().message(), HasSubstr("symbolic link"));
  fs::remove(onto("x"));
  std::ofstream(directory_.path() / "outside" / "b") << "mine";
  fs::create_symlink(directory_.path() / "outside" / "b", onto("b"));
  EXPECT_THAT(prepare(plan, {.onto = onto()}).error().message(), HasSubstr("symbolic link"));
  EXPECT_EQ(*read_file(directory_.path() / "outside" / "b"), "mine");
  EXPECT_FALSE(fs::exists(directory_.path() / "outside" / "a"));
}

TEST_F(PrepareTest, DotsDoNotLeadOut) {
  CallTrace trace(
      {{.call = Call::kOpen, .file = "/d/../../../../outside", .result = 3},
       {.call = Call::kRead, .file = "/d/../../../../outside", .offset = 0, .size = 5, .result = 5},
       {.call = Call::kStat, .file = "/d/a", .size = 5}});
  ASSERT_TRUE(prepare(trace.plan(), {.onto = onto()}).ok());
  EXPECT_TRUE(fs::exists(onto("outside")));
  EXPECT_TRUE(fs::exists(onto("d/a")));
}

TEST_F(PrepareTest, AFolderWithoutSpaceIsRefusedBeforeTheStart) {
  CallTrace trace({{.call = Call::kOpen, .file = "/d/a", .result = 3},
                   {.call = Call::kPread,
                    .file = "/d/a",
                    .offset = uint64_t{1} << 60,
                    .size = 5,
                    .result = 5}});
  const Plan plan = trace.plan();
  EXPECT_THAT(prepare(plan, {.onto = onto(), .fill = true}).error().message(),
              HasSubstr("are free"));
  EXPECT_TRUE(fs::is_empty(onto()));
}

TEST_F(PrepareTest, AFileInPlaceOfTheFolderIsRefused) {
  std::ofstream(directory_.path() / "onto") << "mine";
  const Plan plan = CallTrace(kReadsTwo).plan();
  EXPECT_THAT(prepare(plan, {.onto = onto().substr(0, onto().size() - 1)}).error().message(),
              HasSubstr("not a directory"));
}

}  // namespace
}  // namespace millrace::replay
