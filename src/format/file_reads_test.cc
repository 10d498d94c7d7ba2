// Reads in flight report files that are gone, truncated, damaged or on a failing device as single
// reads do. The contract checks that they return the same bytes (file_source_test.cc).
#include "format/file_reads.h"

#include <gmock/gmock.h>

#include <fstream>
#include <functional>

#include "base/io/temporary_directory.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using data::Buffer;
using data::SampleId;
using testing::ElementsAre;
using testing::HasSubstr;

// Reads all samples with one thread.
std::vector<Result<std::string>> fly(const FileSource& source, size_t capacity) {
  auto reads = *source.open_reads(capacity);
  std::vector<Buffer> rooms(source.sample_count());
  std::vector<Result<std::string>> all(rooms.size(), Result<std::string>(std::string("never")));
  std::vector<data::SampleDone> done;
  for (uint64_t i = 0; i < rooms.size() || reads->in_flight() > 0;) {
    while (i < rooms.size() && reads->in_flight() < reads->capacity()) {
      reads->submit({.sample = SampleId{i}, .room = &rooms[i], .tag = i});
      ++i;
    }
    done.clear();
    reads->wait(done);
    for (const data::SampleDone& one : done) {
      all[one.tag] = one.bytes.ok() ? Result<std::string>(std::string(text_of(*one.bytes)))
                                    : Result<std::string>(one.bytes.error());
    }
  }
  return all;
}

class FileReadsTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto engine = io::open_engine(GetParam());
    if (!engine.ok() || (*engine)->ways().in_flight.empty()) {
      GTEST_SKIP() << "no io_uring here";
    }
    engine_ = *std::move(engine);
  }

  std::filesystem::path path(std::string_view name) const { return directory_.path() / name; }
  void write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
  }
  std::shared_ptr<FileSource> records_of(std::string_view name) const {
    return *open_files({.format = "raw",
                        .format_options = {.record_bytes = 4},
                        .paths = {path(name)},
                        .engine = engine_});
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::shared_ptr<io::Engine> engine_;
};

TEST_P(FileReadsTest, AMissingFileIsNamedAndTheOthersAreRead) {
  for (const char* name : {"d/a.bin", "d/b.bin", "d/c.bin"}) write(name, name);
  const auto source = *open_files({.format = "raw", .directory = path("d"), .engine = engine_});
  std::filesystem::remove(path("d/b.bin"));
  const auto all = fly(*source, 2);
  EXPECT_EQ(*all[0], "d/a.bin");
  EXPECT_EQ(*all[2], "d/c.bin");
  ASSERT_FALSE(all[1].ok());
  Buffer room;
  EXPECT_EQ(all[1].error().message(), source->read(SampleId{1}, room).error().message());
  EXPECT_EQ(all[1].error().code(), Errc::kNotFound);
  EXPECT_THAT(all[1].error().message(), HasSubstr("changed since the dataset was opened"));
}

TEST_P(FileReadsTest, ATruncatedFileIsNamedWithTheRecord) {
  write("a.bin", "abcdefghijkl");
  const auto source = records_of("a.bin");
  Buffer room;
  ASSERT_TRUE(source->read(SampleId{0}, room).ok());  // it is open from now on
  std::filesystem::resize_file(path("a.bin"), 6);
  const auto all = fly(*source, 3);
  EXPECT_EQ(*all[0], "abcd");
  ASSERT_FALSE(all[1].ok());
  EXPECT_THAT(all[1].error().message(), HasSubstr("a.bin: record 1 at byte 4: the file ends at "
                                                  "byte 6, 2 bytes before the sample does"));
  ASSERT_FALSE(all[2].ok());
}

TEST_P(FileReadsTest, AReplacedFileIsNoticedBeforeItIsRead) {
  write("a.bin", "abcd");
  const auto source = records_of("a.bin");
  write("a.bin", "ABCD");
  std::filesystem::last_write_time(
      path("a.bin"), std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_THAT(fly(*source, 3)[0].error().message(), HasSubstr("a.bin: was written to or replaced"));
}

TEST_P(FileReadsTest, BytesThatDoNotMatchTheIndexAreReported) {
  {
    const auto posix = *io::open_engine("posix");
    const auto writer = *(*open_format("indexed"))->create(*posix, path("a.mrd"));
    for (const char* text : {"abcd", "efgh"}) {
      const Field field = bytes_field("data", bytes_of(text));
      ASSERT_TRUE(writer->add("", std::span(&field, 1)).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  }
  const auto source = *open_files({.paths = {path("a.mrd")}, .engine = engine_});
  Buffer room;
  ASSERT_TRUE(source->read(SampleId{0}, room).ok());
  std::fstream file(path("a.mrd"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(64 + 5);
  file << "F";
  file.close();
  const auto all = fly(*source, 2);
  EXPECT_EQ(*all[0], "abcd");
  ASSERT_FALSE(all[1].ok());
  EXPECT_EQ(all[1].error().code(), Errc::kCorrupt);
  EXPECT_THAT(all[1].error().message(), HasSubstr("a.mrd: record 1 at byte 68: its 4 bytes have"));
}

TEST_P(FileReadsTest, FilesThatOutgrowTheirBufferAreReadCompletely) {
  const std::string big(3'000'000, 'x');
  const std::string bigger(4'000'000, 'y');
  write("d/a.bin", big);
  write("d/b.bin", bigger);
  write("d/c.bin", "small");
  const auto source = *open_files({.format = "raw", .directory = path("d"), .engine = engine_});
  const auto all = fly(*source, 2);
  EXPECT_EQ(*all[0], big);
  EXPECT_EQ(*all[1], bigger);
  EXPECT_EQ(*all[2], "small");
}

INSTANTIATE_TEST_SUITE_P(Of, FileReadsTest, testing::Values("auto", "uring", "direct"),
                         [](const auto& tried) { return std::string(tried.param); });

class FaultyReadsTest : public testing::Test {
 protected:
  std::shared_ptr<FileSource> files(const std::vector<std::string>& contents) const {
    std::vector<std::filesystem::path> paths;
    for (const std::string& content : contents) {
      paths.emplace_back(fmt::format("{}.bin", paths.size()));
      const auto writer = *engine_->create(paths.back());
      EXPECT_TRUE(writer->write_at(0, bytes_of(content)).ok());
    }
    return *open_files({.format = "raw", .paths = paths, .engine = engine_});
  }

  std::shared_ptr<io::MemoryEngine> engine_ = std::make_shared<io::MemoryEngine>();
};

TEST_F(FaultyReadsTest, ShortAndInterruptedReadsAreContinued) {
  const auto source = files({"abcdefgh", "ij", ""});
  engine_->set_faults({.transfer_bytes_max = 1, .interrupt_every = 2});
  const auto all = fly(*source, 3);
  EXPECT_EQ(*all[0], "abcdefgh");
  EXPECT_EQ(*all[1], "ij");
  EXPECT_EQ(*all[2], "");
  EXPECT_GT(engine_->interrupted_count(), 0u);
}

TEST_F(FaultyReadsTest, AnErrorOfTheDeviceIsReported) {
  const auto source = files({"abcd", "efgh", "ijkl"});
  engine_->set_faults({.path_contains = "1.bin", .read_error_at = 2});
  const auto all = fly(*source, 2);
  EXPECT_EQ(*all[0], "abcd");
  EXPECT_EQ(*all[2], "ijkl");
  EXPECT_THAT(all[1].error().message(), HasSubstr("1.bin: cannot read"));
}

// A queue that stops working after some reads.
class BrokenQueue final : public io::ReadQueue {
 public:
  explicit BrokenQueue(std::unique_ptr<io::ReadQueue> good, int waits)
      : good_(std::move(good)), waits_(waits) {}
  size_t capacity() const override { return good_->capacity(); }
  size_t in_flight() const override { return good_->in_flight(); }
  Status submit(const io::ReadRequest& request) override { return good_->submit(request); }
  Status submit_whole(io::WholeFileRequest request) override {
    return good_->submit_whole(std::move(request));
  }
  Status wait(std::vector<io::ReadDone>& done) override {
    if (waits_-- > 0) return good_->wait(done);
    return fail(Errc::kIo, "cannot wait for io_uring");
  }

 private:
  std::unique_ptr<io::ReadQueue> good_;
  int waits_;
};

TEST_F(FaultyReadsTest, EverySampleIsReadEvenIfTheQueueFails) {
  const auto source = files({"a", "bb", "ccc", "dddd", "eeeee"});
  for (const int waits : {0, 1, 2}) {
    FileReads reads(*source, std::make_unique<BrokenQueue>(*engine_->open_queue(2), waits));
    std::vector<Buffer> rooms(5);
    std::vector<std::string> texts(5);
    std::vector<data::SampleDone> done;
    for (uint64_t i = 0; i < 5 || reads.in_flight() > 0;) {
      while (i < 5 && reads.in_flight() < reads.capacity()) {
        reads.submit({.sample = SampleId{i}, .room = &rooms[i], .tag = i});
        ++i;
      }
      done.clear();
      reads.wait(done);
      for (const data::SampleDone& one : done) texts[one.tag] = std::string(text_of(*one.bytes));
    }
    EXPECT_THAT(texts, ElementsAre("a", "bb", "ccc", "dddd", "eeeee"));
  }
}

}  // namespace
}  // namespace millrace::format
