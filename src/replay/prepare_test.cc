#include "replay/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/io/file.h"
#include "replay/testing/call_trace.h"

namespace millrace::replay {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
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
  void make_marked_folder() const {
    fs::create_directories(onto());
    std::ofstream(onto(kFolderMark)) << "";
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
  EXPECT_THAT(clean(plan, *prepared, Keep::kInputs), IsEmpty());
  EXPECT_TRUE(fs::exists(onto("x/a")));
  EXPECT_THAT(clean(plan, *prepared, Keep::kNothing), IsEmpty());
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
  make_marked_folder();
  fs::create_directories(onto("x"));
  std::ofstream(onto("x/a")) << "short";
  const Plan plan = CallTrace(kReadsTwo).plan();
  const auto prepared = prepare(plan, {.onto = onto()});
  ASSERT_TRUE(prepared.ok()) << prepared.error().message();
  EXPECT_EQ(prepared->existing_count, 1u);
  EXPECT_EQ(prepared->too_small_count, 1u);
  EXPECT_EQ(*read_file(onto("x/a")), "short");
  EXPECT_THAT(clean(plan, *prepared, Keep::kNothing), IsEmpty());
  EXPECT_EQ(*read_file(onto("x/a")), "short");
  EXPECT_FALSE(fs::exists(onto("b")));
}

TEST_F(PrepareTest, ExistingFilesAreNotModified) {
  make_marked_folder();
  CallTrace trace(
      {{.call = Call::kOpen, .file = "/d/a", .result = 3, .detail = O_WRONLY | O_CREAT | O_EXCL},
       {.call = Call::kMkdir, .file = "/d/sub"}});
  const Plan plan = trace.plan();
  fs::create_directories(onto("sub"));
  EXPECT_THAT(prepare(plan, {.onto = onto()}).error().message(), HasSubstr("sub exists, and"));
  fs::remove(onto("sub"));
  std::ofstream(onto("a")) << "mine";
  EXPECT_THAT(prepare(plan, {.onto = onto()}).error().message(), HasSubstr("a exists, and"));
  EXPECT_EQ(*read_file(onto("a")), "mine");
}

TEST_F(PrepareTest, NothingIsCreatedInAFolderOfSomebodyElse) {
  fs::create_directories(onto("x"));
  std::ofstream(onto("x/a")) << "mine";
  const Plan reads = CallTrace(kReadsTwo).plan();
  EXPECT_THAT(
      prepare(reads, {.onto = onto()}).error().message(),
      HasSubstr("/b: the trace reads it, but it does not exist, and files are created only"));
  std::ofstream(onto("b")) << "mine";
  EXPECT_TRUE(prepare(reads, {.onto = onto()}).ok());
  const Plan creates = CallTrace({{.call = Call::kMkdir, .file = "/d/x/new"}}).plan();
  EXPECT_THAT(prepare(creates, {.onto = onto()}).error().message(),
              HasSubstr("was not made by a replay, so it is only read, but the trace creates"));
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(onto()), {}), 3);
}

TEST_F(PrepareTest, APreparationThatFailsLeavesNothing) {
  const std::string long_name = "/d/" + std::string(300, 'b');
  CallTrace trace({{.call = Call::kStat, .file = "/d/a", .size = 5},
                   {.call = Call::kStat, .file = long_name, .size = 5}});
  const auto prepared = prepare(trace.plan(), {.onto = onto()});
  EXPECT_THAT(prepared.error().message(), HasSubstr("bbb: cannot create: file name too long"));
  EXPECT_FALSE(fs::exists(onto()));
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
  EXPECT_FALSE(fs::exists(onto()));
}

TEST_F(PrepareTest, NumbersThatNoFileSystemHasAreRefused) {
  const auto refusal_of = [&](const Recorded& call) {
    CallTrace trace({{.call = Call::kOpen,
                      .file = "/d/a",
                      .result = 3,
                      .detail = O_WRONLY | O_CREAT | O_APPEND},
                     call});
    const auto prepared = prepare(trace.plan(), {.onto = onto()});
    return prepared.ok() ? "accepted" : prepared.error().message();
  };
  const uint64_t huge = uint64_t{1} << 62;
  const Recorded write{.call = Call::kPwrite, .file = "/d/a", .size = 10, .result = 10};
  for (const uint64_t offset : {huge, ~uint64_t{0} - 5}) {
    Recorded call = write;
    call.offset = offset;
    EXPECT_THAT(refusal_of(call), HasSubstr("are free")) << offset;
    call = {.call = Call::kFallocate, .file = "/d/a", .offset = 5, .size = offset};
    EXPECT_THAT(refusal_of(call), HasSubstr("are free")) << offset;
    call = {.call = Call::kFtruncate, .file = "/d/a", .size = offset};
    EXPECT_THAT(refusal_of(call), HasSubstr("are free")) << offset;
  }
  EXPECT_EQ(refusal_of(write), "accepted");
}

TEST_F(PrepareTest, AppendedBytesAddUp) {
  std::vector<Recorded> calls = {
      {.call = Call::kOpen, .file = "/d/a", .result = 3, .detail = O_WRONLY | O_CREAT | O_APPEND}};
  const auto gigabyte = int64_t{1} << 30;
  for (int i = 0; i < 20'000; ++i) {
    calls.push_back({.call = Call::kWrite,
                     .file = "/d/a",
                     .size = static_cast<uint64_t>(gigabyte),
                     .result = gigabyte});
  }
  const Plan plan = CallTrace(calls).plan();
  EXPECT_EQ(plan.paths[plan.names.find("/d/a")].written_end, 20'000u * uint64_t{1} << 30);
}

// A file that is removed while it is open takes its room until it is closed.
TEST_F(PrepareTest, BytesOfRemovedFilesAddUp) {
  constexpr int64_t kSize = 1000;
  const auto peak_of = [](const Recorded& open, const Recorded& remove, bool closes) {
    std::vector<Recorded> calls;
    for (int64_t fd = 3; fd < 13; ++fd) {
      Recorded opened = open;
      opened.result = fd;
      calls.push_back(opened);
      calls.push_back(
          {.call = Call::kWrite, .file = open.file, .size = uint64_t{kSize}, .result = kSize});
      if (remove.call != Call{}) calls.push_back(remove);
      if (closes) calls.push_back({.call = Call::kClose, .file = open.file});
    }
    return CallTrace(calls).plan().unnamed_peak_bytes;
  };
  const Recorded open{
      .call = Call::kOpen, .file = "/d/a", .result = 3, .detail = O_WRONLY | O_CREAT | O_APPEND};
  const Recorded unlink{.call = Call::kUnlink, .file = "/d/a"};
  const Recorded rename{.call = Call::kRename, .file = "/d/b", .other_file = "/d/a"};
  Recorded temporary = open;
  temporary.detail = O_WRONLY | O_TMPFILE;
  EXPECT_EQ(peak_of(open, {}, false), 0u);
  EXPECT_GE(peak_of(open, unlink, false), 10u * kSize);
  EXPECT_GE(peak_of(open, rename, false), 10u * kSize);
  EXPECT_GE(peak_of(temporary, {}, false), 10u * kSize);
  EXPECT_LE(peak_of(temporary, {}, true), 1u * kSize);
  Plan plan = CallTrace({open, unlink}).plan();
  plan.unnamed_peak_bytes = ~uint64_t{0};
  EXPECT_THAT(prepare(plan, {.onto = onto()}).error().message(), HasSubstr("are free"));
}

TEST_F(PrepareTest, AFileInPlaceOfTheFolderIsRefused) {
  std::ofstream(directory_.path() / "onto") << "mine";
  const Plan plan = CallTrace(kReadsTwo).plan();
  EXPECT_THAT(prepare(plan, {.onto = onto().substr(0, onto().size() - 1)}).error().message(),
              HasSubstr("not a directory"));
}

}  // namespace
}  // namespace millrace::replay
