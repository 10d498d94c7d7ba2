// Tests for all formats: golden files, flipped bits, and their own writers.
#include "format/format.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "io/testing/memory_engine.h"

namespace millrace::format {
namespace {

using data::ElementType;
using testing::ElementsAre;
using testing::HasSubstr;

struct Golden {
  std::string format;
  std::string file;
  FormatOptions options;
};

const Golden kGolden[] = {
    {"npy", "samples.npy", {}},
    {"npy", "samples.npy", {.rows = true}},
    {"npz", "samples.npz", {}},
    {"tar", "samples.tar", {}},
    {"tfrecord", "tensorflow.tfrecord", {}},
    {"indexed", "indexed.mrd", {}},
    {"csv", "samples.csv", {}},
    {"json", "samples.json", {}},
    {"jsonl", "samples.jsonl", {}},
};

std::string golden(const std::string& name) { return *read_file("tests/golden/" + name); }

void put(io::Engine& engine, const std::string& path, std::string_view content) {
  const auto writer = *engine.create(path);
  ASSERT_TRUE(writer->write_at(0, bytes_of(content)).ok());
  ASSERT_TRUE(writer->close().ok());
}

// Reads a whole file: the fields of all samples, or the first error.
Result<std::vector<std::string>> read_all(const Format& format, io::Engine& engine,
                                          const std::string& path) {
  ASSIGN_OR_RETURN(const data::FileSamples samples, format.index(engine, path));
  ASSIGN_OR_RETURN(const auto reader, engine.open(path));
  ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes());
  std::vector<std::string> texts;
  SampleFields fields;
  for (uint64_t i = 0; i < samples.count(); ++i) {
    data::Span span{0, size};
    if (samples.kind == data::FileSamples::Kind::kListed) span = samples.spans[i];
    if (samples.kind == data::FileSamples::Kind::kRecords) {
      span = {samples.offset_bytes + i * samples.record_bytes, samples.record_bytes};
    }
    EXPECT_LE(span.offset_bytes, size);
    EXPECT_LE(span.size_bytes, size - span.offset_bytes);
    // Exactly as long as the sample, so that a sanitizer notices any byte read beyond it.
    std::vector<std::byte> bytes(span.size_bytes);
    RETURN_IF_ERROR(reader->read_at(span.offset_bytes, bytes));
    RETURN_IF_ERROR(format.split(bytes, fields));
    for (const Field& field : fields.list()) {
      EXPECT_EQ(field.array.bytes.size(),
                field.array.shape.element_count() * data::element_bytes(field.array.type));
      texts.push_back(fmt::format("{}={}", field.name, text_of(field.array.bytes)));
    }
  }
  return texts;
}

class GoldenTest : public testing::TestWithParam<Golden> {
 protected:
  // Reads `content` instead of the golden file, and `index_content` instead of its index.
  Result<std::vector<std::string>> read(std::string_view content, std::string_view index_content) {
    io::MemoryEngine engine;
    put(engine, "x.mrd", content);
    if (GetParam().format == "indexed") put(engine, "x.mrx", index_content);
    return read_all(**open_format(GetParam().format, GetParam().options), engine, "x.mrd");
  }

  std::string content_ = golden(GetParam().file);
  std::string index_ = GetParam().format == "indexed" ? golden("indexed.mrx") : "";
};

TEST_P(GoldenTest, IsRead) {
  const auto texts = read(content_, index_);
  if (!texts.ok() && texts.error().code() == Errc::kUnsupported) {
    GTEST_SKIP() << texts.error().message();  // a build without zlib
  }
  ASSERT_TRUE(texts.ok()) << texts.error().message();
  EXPECT_FALSE(texts->empty());
}

TEST_P(GoldenTest, AFlippedBitNeverCrashesTheReader) {
  for (size_t at = 0; at < content_.size() * 8; ++at) {
    std::string flipped = content_;
    flipped[at / 8] = static_cast<char>(flipped[at / 8] ^ 1 << at % 8);
    const auto texts = read(flipped, index_);
    if (!texts.ok()) {
      EXPECT_FALSE(texts.error().message().empty());
    }
  }
  for (size_t at = 0; at < index_.size() * 8; ++at) {
    std::string flipped = index_;
    flipped[at / 8] = static_cast<char>(flipped[at / 8] ^ 1 << at % 8);
    EXPECT_FALSE(read(content_, flipped).ok()) << "bit " << at << " of the index";
  }
}

TEST_P(GoldenTest, ATruncatedFileIsAnErrorOrHasFewerSamples) {
  const auto all = read(content_, index_);
  const size_t whole = all.ok() ? all->size() : 0;
  for (size_t size = 0; size < content_.size(); ++size) {
    const auto texts = read(content_.substr(0, size), index_);
    if (texts.ok()) {
      EXPECT_LE(texts->size(), whole) << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GoldenTest, testing::ValuesIn(kGolden),
                         [](const testing::TestParamInfo<Golden>& test) {
                           return test.param.format + (test.param.options.rows ? "_rows" : "");
                         });

TEST(Golden, HasTheExpectedSamples) {
  io::MemoryEngine engine;
  put(engine, "a.tar", golden("samples.tar"));
  EXPECT_THAT(*read_all(**open_format("tar"), engine, "a.tar"),
              ElementsAre("txt=zero", "cls=3", "txt=one"));
  const data::FileSamples tar = *(*open_format("tar"))->index(engine, "a.tar");
  EXPECT_THAT(tar.names, ElementsAre("a/0", "a/" + std::string(120, '1')));
  EXPECT_THAT(tar.labels, ElementsAre(3, -1));
  put(engine, "a.mrd", golden("indexed.mrd"));
  put(engine, "a.mrx", golden("indexed.mrx"));
  EXPECT_THAT(*read_all(**open_format("indexed"), engine, "a.mrd"),
              ElementsAre("data=", "data=a", "data=bc"));
  EXPECT_THAT((*open_format("indexed"))->index(engine, "a.mrd")->labels, ElementsAre(5, -1, 6));
}

TEST(Golden, HasTheExpectedTextAndTokens) {
  io::MemoryEngine engine;
  const std::vector<std::string> texts = {"cat", "a, \"b\"\n\xc3\xa9"};
  for (const std::string name : {"csv", "json", "jsonl"}) {
    put(engine, "a", golden("samples." + name));
    const auto fields = *read_all(**open_format(name), engine, "a");
    ASSERT_EQ(fields.size(), 6u) << name;
    EXPECT_EQ(fields[2], "text=" + texts[0]) << name;
    EXPECT_EQ(fields[5], "text=" + texts[1]) << name;
  }
  put(engine, "t.bin", golden("tokens.bin"));
  put(engine, "t.idx", golden("tokens.idx"));
  using namespace std::string_literals;
  EXPECT_THAT(*read_all(**open_format("megatron"), engine, "t.bin"),
              ElementsAre("tokens=\0\0\1\0"s, "tokens=\2\0\3\0\4\0\5\0"s));
  for (const std::string end : {"", ".off.idx", ".sz.idx"}) {
    put(engine, "d" + end, golden("samples.indexed_binary" + end));
  }
  EXPECT_THAT(*read_all(**open_format("indexed_binary"), engine, "d"),
              ElementsAre("data=abc", "data=", "data=de"));
}

TEST(Tfrecord, NoticesEveryFlippedBit) {
  const std::string content = golden("tensorflow.tfrecord");
  const auto format = *open_format("tfrecord");
  for (size_t at = 0; at < content.size() * 8; ++at) {
    std::string flipped = content;
    flipped[at / 8] = static_cast<char>(flipped[at / 8] ^ 1 << at % 8);
    io::MemoryEngine engine;
    put(engine, "x", flipped);
    EXPECT_FALSE(read_all(*format, engine, "x").ok()) << "bit " << at;
  }
}

TEST(Indexed, RefusesTheIndexOfOtherData) {
  io::MemoryEngine engine;
  const auto format = *open_format("indexed");
  for (const std::string name : {"a", "b"}) {
    const auto writer = *format->create(engine, name + ".mrd");
    const Field field = bytes_field("data", bytes_of(name));
    ASSERT_TRUE(writer->add("0", std::span(&field, 1)).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  const auto reader = *engine.open("b.mrx");
  std::string index(*reader->size_bytes(), '\0');
  ASSERT_TRUE(reader->read_at(0, std::as_writable_bytes(std::span(index))).ok());
  put(engine, "a.mrx", index);
  const auto samples = format->index(engine, "a.mrd");
  ASSERT_FALSE(samples.ok());
  EXPECT_THAT(samples.error().message(), HasSubstr("the index file belongs to other data"));
}

TEST(Indexed, SaysWhichVersionItReads) {
  io::MemoryEngine engine;
  std::string data = golden("indexed.mrd");
  data[8] = 2;
  put(engine, "a.mrd", data);
  put(engine, "a.mrx", golden("indexed.mrx"));
  const auto samples = (*open_format("indexed"))->index(engine, "a.mrd");
  EXPECT_EQ(samples.error().code(), Errc::kUnsupported);
  EXPECT_THAT(samples.error().message(), HasSubstr("version 2; this build reads 1"));
}

// A sparse file of 8 TiB: no memory may be allocated for it before its header is checked.
TEST(Indexed, RefusesAHugeIndexWithoutReadingIt) {
  const TemporaryDirectory directory = *TemporaryDirectory::create();
  const std::string path = directory.path() / "a.mrx";
  const auto engine = *io::open_engine("posix");
  put(*engine, directory.path() / "a.mrd", golden("indexed.mrd"));
  for (const std::string& head : {golden("indexed.mrx"), std::string(64, 'x')}) {
    put(*engine, path, head);
    if (truncate(path.c_str(), int64_t{8} << 40) != 0) GTEST_SKIP() << "no files of 8 TiB here";
    const auto samples = (*open_format("indexed"))->index(*engine, directory.path() / "a.mrd");
    ASSERT_FALSE(samples.ok());
    EXPECT_EQ(samples.error().code(), Errc::kCorrupt) << samples.error().message();
  }
}

TEST(Tar, RefusesNamesThatDoNotMakeOneSample) {
  io::MemoryEngine engine;
  const auto writer = *(*open_format("tar"))->create(engine, "a.tar");
  const Field field = bytes_field("txt", bytes_of("x"));
  EXPECT_FALSE(writer->add("a.b", std::span(&field, 1)).ok());
  EXPECT_FALSE(writer->add("", std::span(&field, 1)).ok());
  EXPECT_FALSE(writer->add("a", {}).ok());
  EXPECT_TRUE(writer->add("dir.x/a", std::span(&field, 1)).ok());
  EXPECT_FALSE(writer->add("dir.x/a", std::span(&field, 1)).ok());
}

TEST(Tar, NoticesTruncationBeforeItsEndMark) {
  const std::string content = golden("samples.tar");
  const size_t members_bytes = content.find_last_not_of('\0') / 512 * 512 + 512;
  const auto format = *open_format("tar");
  for (size_t size = 0; size <= members_bytes; ++size) {
    io::MemoryEngine engine;
    put(engine, "x", content.substr(0, size));
    EXPECT_FALSE(format->index(engine, "x").ok()) << size;
  }
  io::MemoryEngine engine;
  put(engine, "x", content.substr(0, members_bytes));
  EXPECT_THAT(format->index(engine, "x").error().message(),
              HasSubstr(fmt::format("ends at byte {} without the empty blocks", members_bytes)));
  put(engine, "x", content.substr(0, members_bytes + 512));
  EXPECT_TRUE(format->index(engine, "x").ok());
}

TEST(Tar, RefusesTwoFieldsWithTheSameName) {
  io::MemoryEngine engine;
  const auto format = *open_format("tar");
  const auto writer = *format->create(engine, "a.tar");
  const Field fields[] = {bytes_field("txt", bytes_of("x")), bytes_field("TXT", bytes_of("y"))};
  ASSERT_TRUE(writer->add("a", fields).ok());
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_THAT(format->index(engine, "a.tar").error().message(),
              HasSubstr("sample 'a' has two members '.txt', the second at byte 1024"));
}

TEST(Raw, HoldsOneSampleWithoutARecordLength) {
  io::MemoryEngine engine;
  const Field field = bytes_field("data", bytes_of("abc"));
  const auto single = *(*open_format("raw"))->create(engine, "a.bin");
  EXPECT_TRUE(single->add("0", std::span(&field, 1)).ok());
  EXPECT_FALSE(single->add("1", std::span(&field, 1)).ok());
  const auto records = *(*open_format("raw", {.record_bytes = 4}))->create(engine, "b.bin");
  EXPECT_THAT(records->add("0", std::span(&field, 1)).error().message(),
              HasSubstr("sample '0' has 3 bytes, but records have 4"));
}

TEST(Npy, WritesZeroRowsAsAnEmptyArray) {
  io::MemoryEngine engine;
  const auto format = *open_format("npy", {.rows = true});
  const auto writer = *format->create(engine, "a.npy");
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(format->index(engine, "a.npy")->count(), 0u);
}

TEST(FormatOf, KnowsFilesByTheirExtension) {
  EXPECT_EQ(*format_of("a/b.tar"), "tar");
  EXPECT_EQ(*format_of("a/train.tfrecord-00001-of-00064"), "tfrecord");
  EXPECT_EQ(*format_of("x.mrd"), "indexed");
  EXPECT_THAT(format_of("a/b.tar.gz").error().message(),
              HasSubstr("a/b.tar.gz: the name does not show the format; choose one of raw, npy"));
}

TEST(FullDisk, FailsTheWriter) {
  for (const std::string& name : format_names()) {
    if (name == "hdf5") continue;  // libhdf5 writes the file, not the engine
    io::MemoryEngine engine;
    engine.set_faults({.disk_bytes = 20});
    const FormatOptions options = {.record_bytes = name == "raw" ? uint64_t{4000} : 0};
    const auto created = (*open_format(name, options))->create(engine, "a.mrd");
    if (!created.ok() && created.error().code() == Errc::kUnsupported) continue;  // without zlib
    const auto& writer = *created;
    const std::string content(4000, 'x');
    const Field field = bytes_field("data", bytes_of(content));
    Status status = writer->add("0", std::span(&field, 1));
    if (status.ok()) status = writer->finish();
    EXPECT_FALSE(status.ok()) << name;
  }
}

}  // namespace
}  // namespace millrace::format
