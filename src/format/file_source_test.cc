#include "format/file_source.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>

#include "base/io/temporary_directory.h"
#include "data/testing/source_contract.h"
#include "format/arrays/array_decoder.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using data::Buffer;
using data::SampleId;
using testing::ElementsAre;
using testing::HasSubstr;

std::shared_ptr<io::Engine> engine_of(std::string_view name) {
  return std::shared_ptr<io::Engine>(*io::open_engine(name));
}

// The engines that this build and this kernel support.
std::vector<std::string> engines() {
  std::vector<std::string> names = {"auto", "posix", "direct", "mapped"};
  if (io::open_engine("uring").ok()) names.emplace_back("uring");
  return names;
}

class FileSourceTest : public testing::Test {
 protected:
  std::filesystem::path path(std::string_view name) const { return directory_.path() / name; }

  void write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
  }

  // Writes each sample as one bytes field, with the format's own writer.
  void write_samples(const std::string& format, const FormatOptions& options, std::string_view name,
                     const std::vector<std::string>& samples) const {
    const auto engine = engine_of("posix");
    const auto writer = *(*open_format(format, options))->create(*engine, path(name));
    for (size_t i = 0; i < samples.size(); ++i) {
      const Field field = bytes_field("data", bytes_of(samples[i]));
      ASSERT_TRUE(writer->add(fmt::format("{:03}", i), std::span(&field, 1)).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  }

  void write_samples_below(const std::string& name) const {
    std::filesystem::create_directories(path(name).parent_path());
    write_samples("tfrecord", {}, name, {"abcd"});
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

std::vector<std::string> random_samples(size_t count) {
  std::vector<std::string> samples;
  for (size_t i = 0; i < count; ++i) {
    samples.push_back(std::string(i * 997 % 5000, static_cast<char>('a' + i % 26)) +
                      std::to_string(i));
  }
  return samples;
}

TEST_F(FileSourceTest, KeepsTheContractForFilesThatAreSamplesWithEveryEngine) {
  const auto samples = random_samples(40);
  for (size_t i = 0; i < samples.size(); ++i) write(fmt::format("d/{:03}.bin", i), samples[i]);
  for (const std::string& engine : engines()) {
    const auto source =
        open_files({.format = "raw", .directory = path("d"), .engine = engine_of(engine)});
    ASSERT_TRUE(source.ok()) << source.error().message();
    const Status status = data::check_source({.source = *source, .samples = samples});
    EXPECT_TRUE(status.ok()) << engine << ": " << status.error().message();
  }
}

TEST_F(FileSourceTest, KeepsTheContractForFilesOfManySamplesWithEveryEngine) {
  const auto samples = random_samples(40);
  const std::vector<std::string> first(samples.begin(), samples.begin() + 25);
  const std::vector<std::string> second(samples.begin() + 25, samples.end());
  write_samples("indexed", {}, "a.mrd", first);
  write_samples("indexed", {}, "b.mrd", {});
  write_samples("indexed", {}, "c.mrd", second);
  for (const std::string& engine : engines()) {
    for (const size_t open_files_max : {0, 1}) {
      const auto source = open_files({.paths = {path("a.mrd"), path("b.mrd"), path("c.mrd")},
                                      .engine = engine_of(engine),
                                      .open_files_max = open_files_max});
      ASSERT_TRUE(source.ok()) << source.error().message();
      const Status status = data::check_source({.source = *source, .samples = samples});
      EXPECT_TRUE(status.ok()) << engine << ": " << status.error().message();
      EXPECT_EQ((*source)->group_begin(2), SampleId{25});
    }
  }
}

TEST_F(FileSourceTest, KeepsTheContractForRecordsOfFixedLength) {
  const std::vector<std::string> samples = {"abcd", "efgh", "ijkl"};
  write("r.bin", "abcdefghijkl");
  const auto source = open_files(
      {.format = "raw", .format_options = {.record_bytes = 4}, .paths = {path("r.bin")}});
  ASSERT_TRUE(source.ok()) << source.error().message();
  const Status status = data::check_source({.source = *source, .samples = samples});
  EXPECT_TRUE(status.ok()) << status.error().message();
  EXPECT_THAT((*source)->name(SampleId{2}), HasSubstr("r.bin: record 2 at byte 8"));
}

TEST_F(FileSourceTest, NeverOpensMoreFilesThanTheProcessMay) {
  const std::vector<std::string> samples = {"abcd", "efgh"};
  std::vector<std::filesystem::path> paths;
  std::vector<std::string> all;
  for (int i = 0; i < 300; ++i) {
    write_samples("raw", {.record_bytes = 4}, fmt::format("{}.bin", i), samples);
    paths.push_back(path(fmt::format("{}.bin", i)));
    all.insert(all.end(), samples.begin(), samples.end());
  }
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few = {.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto source =
      open_files({.format = "raw", .format_options = {.record_bytes = 4}, .paths = paths});
  Status status = source.ok() ? data::check_source({.source = *source, .samples = all})
                              : Status(source.error());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(status.ok()) << status.error().message();
}

TEST_F(FileSourceTest, ReadsASampleThatOutgrowsItsBuffer) {
  const std::string big(3'000'000, 'x');
  write("d/a.bin", big);
  const auto source = *open_files({.format = "raw", .directory = path("d")});
  Buffer room;
  const auto bytes = source->read(SampleId{0}, room);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message();
  EXPECT_EQ(text_of(*bytes), big);
}

TEST_F(FileSourceTest, ReportsAFileThatIsGone) {
  write("d/a.bin", "x");
  const auto source = *open_files({.format = "raw", .directory = path("d")});
  std::filesystem::remove(path("d/a.bin"));
  Buffer room;
  const auto bytes = source->read(SampleId{0}, room);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code(), Errc::kNotFound);
  EXPECT_THAT(bytes.error().message(), HasSubstr("d/a.bin: "));
  EXPECT_THAT(bytes.error().message(), HasSubstr("changed since the dataset was opened"));
}

TEST_F(FileSourceTest, ReportsAFileThatBecameShorter) {
  for (const std::string& engine : engines()) {
    write_samples("raw", {.record_bytes = 4}, "a.bin", {"abcd", "efgh", "ijkl"});
    const auto source = *open_files({.format = "raw",
                                     .format_options = {.record_bytes = 4},
                                     .paths = {path("a.bin")},
                                     .engine = engine_of(engine)});
    Buffer room;
    ASSERT_TRUE(source->read(SampleId{2}, room).ok());  // it is open from now on
    std::filesystem::resize_file(path("a.bin"), 6);
    const auto bytes = source->read(SampleId{1}, room);
    ASSERT_FALSE(bytes.ok()) << engine;
    EXPECT_THAT(bytes.error().message(), HasSubstr("a.bin: record 1 at byte 4: the file ends at "
                                                   "byte 6, 2 bytes before the sample does"));
    std::vector<std::byte> out(4);
    EXPECT_FALSE(source->read_into(SampleId{2}, out).ok());
    EXPECT_TRUE(source->read(SampleId{0}, room).ok());
  }
}

TEST_F(FileSourceTest, ReportsAFileThatWasReplacedBeforeItWasOpened) {
  write_samples("raw", {.record_bytes = 4}, "a.bin", {"abcd"});
  const auto source = *open_files(
      {.format = "raw", .format_options = {.record_bytes = 4}, .paths = {path("a.bin")}});
  write_samples("raw", {.record_bytes = 4}, "a.bin", {"ABCD"});
  std::filesystem::last_write_time(
      path("a.bin"), std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  Buffer room;
  const auto bytes = source->read(SampleId{0}, room);
  ASSERT_FALSE(bytes.ok());
  EXPECT_THAT(bytes.error().message(), HasSubstr("a.bin: was written to or replaced"));
}

TEST_F(FileSourceTest, ReportsBytesThatDoNotMatchTheIndex) {
  write_samples("indexed", {}, "a.mrd", {"abcd", "efgh"});
  const auto source = *open_files({.paths = {path("a.mrd")}});
  Buffer room;
  ASSERT_TRUE(source->read(SampleId{0}, room).ok());
  std::fstream file(path("a.mrd"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(64 + 5);
  file << "F";
  file.close();
  EXPECT_TRUE(source->read(SampleId{0}, room).ok());
  const auto bytes = source->read(SampleId{1}, room);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.error().code(), Errc::kCorrupt);
  EXPECT_THAT(bytes.error().message(), HasSubstr("a.mrd: record 1 at byte 68: its 4 bytes have"));
}

TEST_F(FileSourceTest, ReportsErrorsOfTheDevice) {
  const auto engine = std::make_shared<io::MemoryEngine>();
  const auto writer = *engine->create("a.bin");
  ASSERT_TRUE(writer->write_at(0, bytes_of("abcdefgh")).ok());
  ASSERT_TRUE(writer->close().ok());
  const auto source = *open_files({.format = "raw",
                                   .format_options = {.record_bytes = 4},
                                   .paths = {"a.bin"},
                                   .engine = engine});
  engine->set_faults({.transfer_bytes_max = 1, .interrupt_every = 2, .read_error_at = 6});
  Buffer room;
  EXPECT_EQ(text_of(*source->read(SampleId{0}, room)), "abcd");
  const auto bytes = source->read(SampleId{1}, room);
  ASSERT_FALSE(bytes.ok());
  EXPECT_THAT(bytes.error().message(), HasSubstr("a.bin: record 1 at byte 4: "));
}

TEST_F(FileSourceTest, LabelsAFolderByItsSortedDirectories) {
  write("t/dog/b.JPG", "2");
  write("t/dog/sub/c.jpg", "3");
  write("t/cat/a.jpg", "1");
  write("t/cat/notes.txt", "-");
  const auto source = open_folder({.directory = path("t"), .extensions = {".jpg", ".png"}});
  ASSERT_TRUE(source.ok()) << source.error().message();
  const Status status = data::check_source({.source = *source, .samples = {"1", "2", "3"}});
  EXPECT_TRUE(status.ok()) << status.error().message();
  EXPECT_THAT((*source)->dataset().class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ((*source)->label(SampleId{0}), 0);
  EXPECT_EQ((*source)->label(SampleId{2}), 1);
  EXPECT_EQ((*source)->name(SampleId{2}), path("t/dog/sub/c.jpg").string());
}

TEST_F(FileSourceTest, ListsAFolderWithoutClasses) {
  write("t/b.jpg", "2");
  write("t/a.jpg", "1");
  write("t/x/c.jpg", "3");
  const auto source = open_folder({.directory = path("t"), .has_classes = false});
  ASSERT_TRUE(source.ok()) << source.error().message();
  EXPECT_EQ((*source)->sample_count(), 3u);
  EXPECT_EQ((*source)->label(SampleId{0}), std::nullopt);
}

TEST_F(FileSourceTest, FollowsLinksButNotInCircles) {
  write("real/x.jpg", "1");
  std::filesystem::create_directories(path("t"));
  std::filesystem::create_directory_symlink(path("real"), path("t/cat"));
  ASSERT_TRUE(open_folder({.directory = path("t")}).ok());
  std::filesystem::create_directory_symlink(path("real"), path("real/again"));
  const auto source = open_folder({.directory = path("t")});
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(source.error().message(), HasSubstr("leads back"));
}

TEST_F(FileSourceTest, ReportsWhatAFolderLacks) {
  write("t/cat/a.txt", "1");
  const auto empty_class = open_folder({.directory = path("t"), .extensions = {".jpg"}});
  EXPECT_THAT(empty_class.error().message(),
              HasSubstr("t/cat: this class has no files that end in .jpg"));
  const auto no_class = open_folder({.directory = path("t/cat")});
  EXPECT_THAT(no_class.error().message(), HasSubstr("has_classes"));
  const auto nowhere = open_folder({.directory = path("nowhere")});
  EXPECT_THAT(nowhere.error().message(), HasSubstr("nowhere: cannot open the directory"));
}

TEST_F(FileSourceTest, RefusesFilesWhoseRowsDiffer) {
  const std::string values(24, '\0');
  for (const uint64_t length : {2u, 3u}) {
    const auto engine = engine_of("posix");
    const auto writer = *(*open_format("npy", {.rows = true}))
                             ->create(*engine, path(fmt::format("{}.npy", length)));
    const Field row = {.name = "data",
                       .array = {.type = data::ElementType::kF32,
                                 .shape = {length},
                                 .bytes = bytes_of(values).first(length * 4)}};
    ASSERT_TRUE(writer->add("0", std::span(&row, 1)).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  const auto one = open_files({.format_options = {.rows = true}, .paths = {path("2.npy")}});
  ASSERT_TRUE(one.ok()) << one.error().message();
  EXPECT_EQ((*one)->element()->shape, (data::Shape{2}));
  const auto both =
      open_files({.format_options = {.rows = true}, .paths = {path("2.npy"), path("3.npy")}});
  ASSERT_FALSE(both.ok());
  EXPECT_THAT(both.error().message(), HasSubstr("3.npy: its samples are [3] of float32"));
}

TEST_F(FileSourceTest, FindsTheFilesOfTheFormatBelowADirectory) {
  for (const char* name : {"s/train.tfrecord-00001-of-00002", "s/train.tfrecord-00000-of-00002",
                           "s/more/x.tfrecord"}) {
    write_samples_below(name);
  }
  write("s/readme.txt", "not a record");
  const auto source = open_files({.format = "tfrecord", .directory = path("s")});
  ASSERT_TRUE(source.ok()) << source.error().message();
  EXPECT_EQ((*source)->group_count(), 3u);
  EXPECT_THAT((*source)->name(SampleId{0}), HasSubstr("s/train.tfrecord-00000-of-00002: record 0"));
  EXPECT_THAT(open_files({.format = "tar", .directory = path("s")}).error().message(),
              HasSubstr("s: found no files that end in .tar below it"));
}

TEST_F(FileSourceTest, IsDecodedLikeItsFirstSample) {
  write_samples("tfrecord", {}, "a.tfrecord", {"abcd", "efgh", "toolong"});
  const auto source = *open_files({.paths = {path("a.tfrecord")}});
  const auto decoder = make_decoder_by_first(*source, source->format());
  ASSERT_TRUE(decoder.ok()) << decoder.error().message();
  ASSERT_EQ((*decoder)->fields().size(), 1u);
  EXPECT_EQ((*decoder)->fields()[0].name, "data");
  EXPECT_EQ((*decoder)->fields()[0].size_bytes(), 4u);
  Buffer room;
  std::string out(4, '#');
  const data::Output place = std::as_writable_bytes(std::span(out));
  const auto scratch = (*decoder)->make_scratch();
  EXPECT_TRUE(
      (*decoder)
          ->decode(*source->read(SampleId{1}, room), {}, std::span(&place, 1), scratch.get())
          .ok());
  EXPECT_EQ(out, "efgh");
  EXPECT_FALSE(
      (*decoder)
          ->decode(*source->read(SampleId{2}, room), {}, std::span(&place, 1), scratch.get())
          .ok());
}

TEST_F(FileSourceTest, NamesTheFileThatCannotBeIndexed) {
  write("a.bin", "abcde");
  const auto source = open_files(
      {.format = "raw", .format_options = {.record_bytes = 4}, .paths = {path("a.bin")}});
  ASSERT_FALSE(source.ok());
  EXPECT_THAT(source.error().message(), HasSubstr("a.bin: the file has 5 bytes"));
  EXPECT_FALSE(open_files({}).ok());
  EXPECT_THAT(open_files({.format = "tra", .directory = path(".")}).error().message(),
              HasSubstr("did you mean 'tar'?"));
}

}  // namespace
}  // namespace millrace::format
