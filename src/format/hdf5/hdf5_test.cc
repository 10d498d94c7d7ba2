// HDF5 files that we write and read. tests/format/format_test.py compares both with h5py.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/io/temporary_directory.h"
#include "data/testing/source_contract.h"
#include "format/file_source.h"
#include "format/packed_fields.h"

namespace millrace::format {
namespace {

using data::Buffer;
using data::ElementType;
using data::SampleId;
using testing::HasSubstr;

#ifdef MILLRACE_HAVE_HDF5

constexpr size_t kRowElements = 700;

// Row i of "x" and "labels", for any i.
struct Row {
  std::vector<uint16_t> x;
  int64_t label;

  explicit Row(uint64_t i) : x(kRowElements), label(static_cast<int64_t>(i) * 3) {
    for (size_t j = 0; j < x.size(); ++j) x[j] = static_cast<uint16_t>(i * 31 + j / 7);
  }
  std::vector<Field> fields() const {
    return {{"labels", {ElementType::kI64, {}, std::as_bytes(std::span(&label, 1))}},
            {"x", {ElementType::kU16, {7, 100}, std::as_bytes(std::span(x))}}};
  }
  std::string packed() const {
    Buffer room;
    // Zeros between the fields, as a source writes them.
    const auto all = fields();
    const PackedField specs[] = {{"labels", ElementType::kI64, {}},
                                 {"x", ElementType::kU16, {7, 100}}};
    const FieldsPacker packer(specs);
    const MutableByteView sample = room.room(packer.size_bytes());
    packer.write_head(sample);
    for (size_t i = 0; i < all.size(); ++i) {
      std::copy(all[i].array.bytes.begin(), all[i].array.bytes.end(),
                packer.field(sample, i).begin());
    }
    return std::string(text_of(sample));
  }
};

class Hdf5Test : public testing::Test {
 protected:
  std::string path(std::string_view name) const { return (directory_.path() / name).string(); }

  std::string write(std::string_view name, uint64_t first, uint64_t count,
                    const FormatOptions::Hdf5& options = {}) const {
    const auto engine = *io::open_engine("posix");
    const auto format = *open_format("hdf5", {.hdf5 = options});
    auto writer = *format->create(*engine, path(name));
    for (uint64_t i = first; i < first + count; ++i) {
      const Row row(i);
      const Status added = writer->add("", row.fields());
      EXPECT_TRUE(added.ok()) << added.error().message();
    }
    const Status finished = writer->finish();
    EXPECT_TRUE(finished.ok()) << finished.error().message();
    return path(name);
  }

  Result<Samples> open(const std::vector<std::string>& paths, std::string_view engine = "auto",
                       const FormatOptions::Hdf5& options = {}) const {
    return open_samples({.format_options = {.hdf5 = options},
                         .paths = {paths.begin(), paths.end()},
                         .engine = *io::open_engine(engine)});
  }

  std::string error_of(const std::string& file, const FormatOptions::Hdf5& options = {}) const {
    const auto samples = open({file}, "posix", options);
    if (!samples.ok()) return samples.error().message();
    Buffer room;
    const auto bytes = samples->source->read(SampleId{0}, room);
    return bytes.ok() ? "none" : bytes.error().message();
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

TEST_F(Hdf5Test, KeepsTheContractWithEveryEngineAndLayout) {
  std::vector<std::string> samples;
  for (uint64_t i = 0; i < 40; ++i) samples.push_back(Row(i).packed());
  std::vector<FormatOptions::Hdf5> layouts = {{}, {.chunk_rows = 4}, {.chunk_rows = 1}};
#ifdef MILLRACE_HAVE_GZIP
  layouts.push_back({.chunk_rows = 3, .gzip_level = 1, .shuffle = true});
  layouts.push_back({.chunk_rows = 1, .gzip_level = 6});
#endif
  for (const bool is_known : {true, false}) {
    for (FormatOptions::Hdf5 layout : layouts) {
      layout.sample_count = is_known ? 25 : 0;
      write("a.h5", 0, 25, layout);
      layout.sample_count = is_known ? 15 : 0;
      write("b.h5", 25, 15, layout);
      for (const char* engine : {"auto", "posix", "direct", "mapped"}) {
        const auto source = open({path("a.h5"), path("b.h5")}, engine);
        ASSERT_TRUE(source.ok()) << source.error().message();
        const Status status = data::check_source({source->source, samples});
        EXPECT_TRUE(status.ok()) << engine << ": " << status.error().message();
        EXPECT_EQ(source->source->group_begin(1), SampleId{25});
      }
    }
  }
}

TEST_F(Hdf5Test, SplitsARowIntoFields) {
  const auto samples = *open({write("a.h5", 0, 3)});
  Buffer room;
  SampleFields fields;
  ASSERT_TRUE(samples.format->split(*samples.source->read(SampleId{2}, room), fields).ok());
  ASSERT_EQ(fields.names(), "'labels', 'x'");
  EXPECT_EQ(fields.list()[0].array.shape, data::Shape());
  EXPECT_EQ(fields.list()[1].array.shape, (data::Shape{7, 100}));
  const Row row(2);
  EXPECT_EQ(text_of(fields.list()[1].array.bytes), text_of(std::as_bytes(std::span(row.x))));
  EXPECT_THAT(samples.source->name(SampleId{2}), HasSubstr("a.h5: row 2"));
}

TEST_F(Hdf5Test, ReadsOnlyTheNamedDatasets) {
  write("a.h5", 0, 3);
  const auto samples = *open({path("a.h5")}, "posix", {.datasets = {"labels"}});
  Buffer room;
  SampleFields fields;
  ASSERT_TRUE(samples.format->split(*samples.source->read(SampleId{1}, room), fields).ok());
  EXPECT_EQ(fields.names(), "'labels'");
  EXPECT_THAT(error_of(path("a.h5"), {.datasets = {"label"}}),
              HasSubstr("has no dataset 'label'; did you mean 'labels'?; it has labels, x"));
}

TEST_F(Hdf5Test, AWholeFileIsOpenedWhenItIsRead) {
  write("a.h5", 0, 3);
  const auto samples = *open({path("a.h5"), path("missing.h5")}, "posix", {.whole_files = true});
  EXPECT_EQ(samples.source->sample_count(), 2u);
  Buffer room;
  SampleFields fields;
  ASSERT_TRUE(samples.format->split(*samples.source->read(SampleId{0}, room), fields).ok());
  EXPECT_EQ(fields.list()[1].array.shape, (data::Shape{3, 7, 100}));
  EXPECT_THAT(samples.source->read(SampleId{1}, room).error().message(),
              HasSubstr("missing.h5: cannot open"));
}

TEST_F(Hdf5Test, TruncatedAndForeignFilesAreErrors) {
  const std::string file = write("a.h5", 0, 30, {.sample_count = 30});
  const auto size = std::filesystem::file_size(file);
  for (const uint64_t kept : {uint64_t{0}, uint64_t{5}, uint64_t{100}, size / 2, size - 1}) {
    std::filesystem::copy_file(file, path("b.h5"),
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(path("b.h5"), kept);
    EXPECT_THAT(error_of(path("b.h5")), HasSubstr("b.h5: ")) << kept;
  }
  std::ofstream(path("c.h5")) << std::string(5000, 'x');
  EXPECT_THAT(error_of(path("c.h5")), HasSubstr("c.h5: cannot be opened as HDF5"));
  EXPECT_THAT(error_of(path("missing.h5")), HasSubstr("missing.h5: cannot open"));
}

TEST_F(Hdf5Test, FilesThatChangeAreErrors) {
  const std::string file = write("a.h5", 0, 30, {.sample_count = 30});
  Buffer room;
  const auto replaced = *open({file}, "posix");
  write("a.h5", 0, 31, {.sample_count = 31});
  EXPECT_THAT(replaced.source->read(SampleId{0}, room).error().message(),
              HasSubstr("changed since the dataset was opened"));
  const auto truncated = *open({file}, "posix");
  ASSERT_TRUE(truncated.source->read(SampleId{0}, room).ok());  // it is open from now on
  std::filesystem::resize_file(file, 4000);
  EXPECT_THAT(truncated.source->read(SampleId{30}, room).error().message(),
              HasSubstr("a.h5: row 30: dataset 'x': the file ends before byte"));
}

TEST_F(Hdf5Test, AForkedChildReads) {
  write("a.h5", 0, 30, {.chunk_rows = 4});
  const auto samples = *open({path("a.h5")}, "posix");
  // Another thread keeps libhdf5 busy while the process forks.
  std::atomic<bool> is_done = false;
  std::thread busy([&] {
    while (!is_done) EXPECT_TRUE(open({path("a.h5")}, "posix").ok());
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // a lock that is never released
      Buffer room;
      const auto again = open({path("a.h5")}, "posix");
      const bool is_right = again.ok() && samples.source->read(SampleId{7}, room).ok() &&
                            text_of(*again->source->read(SampleId{7}, room)) == Row(7).packed();
      _exit(is_right ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  is_done = true;
  busy.join();
}

TEST_F(Hdf5Test, WritingRefusesRowsOfAnotherShape) {
  const auto engine = *io::open_engine("posix");
  const auto format = *open_format("hdf5", {});
  auto writer = *format->create(*engine, path("a.h5"));
  const Field first = bytes_field("x", bytes_of("abc"));
  ASSERT_TRUE(writer->add("", std::span(&first, 1)).ok());
  const Field second = bytes_field("x", bytes_of("abcd"));
  EXPECT_THAT(writer->add("", std::span(&second, 1)).error().message(),
              HasSubstr("dataset 'x': sample 1 has 'x', [4] of uint8, but its rows are [3]"));
  writer.reset();  // not finished
  EXPECT_FALSE(std::filesystem::exists(path("a.h5")));
}

TEST_F(Hdf5Test, WritingChecksTheAnnouncedNumber) {
  const auto engine = *io::open_engine("posix");
  const auto format = *open_format("hdf5", {.hdf5 = {.sample_count = 2}});
  auto writer = *format->create(*engine, path("a.h5"));
  const Field field = bytes_field("x", bytes_of("abc"));
  ASSERT_TRUE(writer->add("", std::span(&field, 1)).ok());
  EXPECT_THAT(writer->finish().error().message(), HasSubstr("2 samples were announced"));
  EXPECT_THAT((*format).create(*engine, path("none/a.h5")).error().message(),
              HasSubstr("none/a.h5: cannot be created"));
}

TEST_F(Hdf5Test, EveryTypeIsWrittenAndRead) {
  const auto engine = *io::open_engine("posix");
  for (int i = 0; i <= static_cast<int>(ElementType::kBool); ++i) {
    const auto type = static_cast<ElementType>(i);
    const std::string bytes(2 * data::element_bytes(type), '\1');
    const Field field = {"group/x", {type, {2}, bytes_of(bytes)}};
    auto writer = *(*open_format("hdf5"))->create(*engine, path("a.h5"));
    ASSERT_TRUE(writer->add("", std::span(&field, 1)).ok()) << i;
    ASSERT_TRUE(writer->finish().ok()) << i;
    const auto samples = open({path("a.h5")}, "posix");
    ASSERT_TRUE(samples.ok()) << samples.error().message();
    Buffer room;
    SampleFields fields;
    ASSERT_TRUE(samples->format->split(*samples->source->read(SampleId{0}, room), fields).ok());
    EXPECT_EQ(fields.list()[0].name, "group/x");
    EXPECT_EQ(data::element_name(fields.list()[0].array.type), data::element_name(type));
    EXPECT_EQ(text_of(fields.list()[0].array.bytes), bytes);
  }
}

#else

TEST(Hdf5Test, ABuildWithoutLibhdf5SaysWhatToInstall) {
  const auto samples = open_samples({.paths = {"a.h5"}});
  ASSERT_FALSE(samples.ok());
  EXPECT_THAT(samples.error().message(), HasSubstr("install libhdf5"));
}

#endif

}  // namespace
}  // namespace millrace::format
