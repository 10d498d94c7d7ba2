#include "format/convert.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/io/temporary_directory.h"

namespace millrace::format {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ConvertTest : public testing::Test {
 protected:
  void put(const std::string& name, std::string_view content) {
    std::ofstream(folder_.path() / name, std::ios::binary) << content;
  }

  // All names in a directory, sorted.
  std::vector<std::string> names(const std::string& directory) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path() / directory)) {
      found.push_back(entry.path().filename().string());
    }
    std::ranges::sort(found);
    return found;
  }

  Result<ConvertReport> convert(const std::vector<std::string>& from, const std::string& to,
                                const std::string& destination, ConvertOptions options = {}) {
    for (const std::string& name : from) options.from.paths.push_back(folder_.path() / name);
    options.to = to;
    options.to_options.rows = true;
    options.to_options.text_float = data::ElementType::kF64;
    options.from.format_options.text_float = data::ElementType::kF64;
    options.destination = folder_.path() / destination;
    options.verify = true;
    return convert_files(options);
  }

  TemporaryDirectory folder_ = *TemporaryDirectory::create();
};

TEST_F(ConvertTest, ATableGoesThroughEveryFormatOfSeveralFieldsAndBack) {
  put("a.csv", "id,score,text\n1,0.1,cat\n2,1e300,\"a,\nb\"\n");
  std::string last = "a.csv";
  for (const std::string format : {"jsonl", "tar", "json", "csv"}) {
    const std::string next = "next." + format;
    fs::remove(folder_.path() / next);
    const auto report = convert({last}, format, next);
    ASSERT_TRUE(report.ok()) << format << ": " << report.error().message();
    EXPECT_EQ(report->sample_count, 2u);
    // A tar's arrays are npy members, which other formats would take as bytes.
    if (format != "tar") last = next;
  }
}

TEST_F(ConvertTest, ADirectoryGetsAFilePerSourceFile) {
  put("a.jsonl", "{\"x\": 1}\n{\"x\": 2}\n");
  put("b.jsonl", "{\"x\": 3}\n");
  const auto report = convert({"a.jsonl", "b.jsonl"}, "tfrecord", "out/deep");
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->sample_count, 3u);
  EXPECT_THAT(names("out/deep"), ElementsAre("a.tfrecord", "b.tfrecord"));
}

TEST_F(ConvertTest, SamplesCanBeCollectedIntoLargerFiles) {
  for (int i = 0; i < 5; ++i) put(fmt::format("{}.raw", i), std::string(8, static_cast<char>(i)));
  const std::vector<std::string> all = {"0.raw", "1.raw", "2.raw", "3.raw", "4.raw"};
  EXPECT_THAT(convert(all, "indexed", "out").error().message(),
              HasSubstr("each of the 5 source files is one sample; choose --samples-per-file"));
  ASSERT_TRUE(convert(all, "indexed", "out", {.samples_per_file = 2}).ok());
  EXPECT_THAT(names("out"),
              ElementsAre("samples-00000.mrd", "samples-00000.mrx", "samples-00001.mrd",
                          "samples-00001.mrx", "samples-00002.mrd", "samples-00002.mrx"));
  ASSERT_TRUE(convert(all, "megatron", "all.bin").ok());
  EXPECT_TRUE(fs::exists(folder_.path() / "all.idx"));
}

TEST_F(ConvertTest, FieldsCanBeChosen) {
  put("a.csv", "x,text\n1,cat\n2,dog\n");
  EXPECT_THAT(convert({"a.csv"}, "npy", "a.npy").error().message(), HasSubstr("a.csv: record 0"));
  EXPECT_TRUE(convert({"a.csv"}, "npy", "a.npy", {.fields = {"x"}}).ok());
  EXPECT_THAT(convert({"a.csv"}, "npy", "b.npy", {.fields = {"y"}}).error().message(),
              HasSubstr("the sample has no 'y'; it has 'x', 'text'"));
}

TEST_F(ConvertTest, AnErrorLeavesNothing) {
  put("a.jsonl", "{\"x\": 1}\n");
  put("b.jsonl", "{\"x\": }\n");
  EXPECT_FALSE(convert({"a.jsonl", "b.jsonl"}, "tar", "out").ok());
  EXPECT_THAT(names("out"), IsEmpty());
  fs::create_directory(folder_.path() / "old");
  put("old/a.tar", "precious");
  EXPECT_THAT(convert({"a.jsonl"}, "tar", "old").error().message(),
              HasSubstr("old/a.tar: exists; remove it or choose another destination"));
  EXPECT_EQ(fs::file_size(folder_.path() / "old/a.tar"), 8u);
}

TEST_F(ConvertTest, AFileBesideTheNewOneIsNotReplaced) {
  put("a.raw", "12345678");
  put("new.mrx", "mine");
  ConvertOptions options;
  options.from.format_options.record_bytes = 8;
  EXPECT_THAT(convert({"a.raw"}, "indexed", "new.mrd", options).error().message(),
              HasSubstr("new.mrx: exists; remove it or choose another destination"));
  EXPECT_THAT(names("."), ElementsAre("a.raw", "new.mrx"));
  std::ifstream beside(folder_.path() / "new.mrx");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(beside), {}), "mine");
}

TEST_F(ConvertTest, LabelsAreKept) {
  put("a.jsonl", "{\"data\": \"x\", \"label\": 7}\n{\"data\": \"yz\", \"label\": 8}\n");
  ASSERT_TRUE(convert({"a.jsonl"}, "indexed", "a.mrd").ok());
  const auto back = convert({"a.mrd"}, "tar", "a.tar");
  ASSERT_TRUE(back.ok()) << back.error().message();
  const auto tar = *open_files({.paths = {folder_.path() / "a.tar"}});
  EXPECT_EQ(tar->label(data::SampleId{1}), 8);
}

TEST(HasSameValues, ComparesNumbersAcrossTypes) {
  const float narrow = 0.1f;
  const double wide = 0.1;
  const int32_t integer = 7;
  const int64_t long_integer = 7;
  const auto field = [](data::ElementType type, const auto& value) {
    return Field{.name = "x", .array = {type, {}, std::as_bytes(std::span(&value, 1))}};
  };
  using data::ElementType;
  EXPECT_TRUE(has_same_values(field(ElementType::kF32, narrow), field(ElementType::kF64, wide)));
  EXPECT_FALSE(has_same_values(field(ElementType::kF64, wide), field(ElementType::kF32, narrow)));
  EXPECT_TRUE(
      has_same_values(field(ElementType::kI32, integer), field(ElementType::kI64, long_integer)));
  EXPECT_FALSE(
      has_same_values(field(ElementType::kF32, narrow), field(ElementType::kI64, long_integer)));
}

}  // namespace
}  // namespace millrace::format
