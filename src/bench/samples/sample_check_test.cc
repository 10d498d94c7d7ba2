#include "bench/samples/sample_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "base/io/file.h"
#include "base/io/temporary_directory.h"
#include "bench/generate/generate.h"
#include "comm/single.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;

Workload of_format(const std::string& folder, std::string_view format) {
  Workload workload;
  workload.dataset.data_folder = folder;
  workload.dataset.format = *named<DatasetFormat>(format);
  workload.dataset.record_length_bytes = 10'000;
  workload.dataset.num_files_train = 1;
  workload.dataset.num_files_eval = 0;
  return workload;
}

class SampleCheckTest : public testing::Test {
 protected:
  // The only file of the dataset, which is one sample.
  std::string generated(const Workload& workload) {
    const auto comm = comm::single();
    EXPECT_TRUE(generate(workload, *comm, {}).ok());
    return *read_file(Layout::of(workload)->path({}));
  }

  Status check(const Workload& workload, std::string_view bytes, bool is_ours = true) {
    auto format = open_dataset_format(workload.dataset);
    EXPECT_TRUE(format.ok());
    const auto check = SampleCheck::of(workload, *std::move(format), is_ours);
    EXPECT_TRUE(check.ok());
    CheckScratch scratch;
    return check->check({}, bytes_of(bytes), scratch);
  }

  TemporaryDirectory directory_ = *TemporaryDirectory::create();
  std::string folder(std::string_view name) const { return (directory_.path() / name).string(); }
};

TEST_F(SampleCheckTest, AcceptsWhatWasGenerated) {
  for (const char* format : {"npz", "npy", "tfrecord", "raw", "indexed_binary"}) {
    const Workload workload = of_format(folder(format), format);
    const Status checked = check(workload, generated(workload));
    EXPECT_TRUE(checked.ok()) << format << ": " << checked.error().message();
  }
}

TEST_F(SampleCheckTest, NoticesEveryShorterSampleOfEveryFormat) {
  for (const char* format : {"npz", "npy", "tfrecord", "raw", "indexed_binary"}) {
    const Workload workload = of_format(folder(format), format);
    const std::string whole = generated(workload);
    for (size_t size = 0; size < whole.size(); size += size < 300 ? 1 : 97) {
      EXPECT_FALSE(check(workload, whole.substr(0, size)).ok()) << format << " " << size;
    }
  }
}

TEST_F(SampleCheckTest, NoticesAFlippedBitWhereTheFormatHasAChecksum) {
  for (const char* format : {"npz", "tfrecord"}) {
    const Workload workload = of_format(folder(format), format);
    std::string bytes = generated(workload);
    bytes[5000] ^= 4;
    EXPECT_THAT(check(workload, bytes).error().message(), HasSubstr("checksum")) << format;
  }
}

TEST_F(SampleCheckTest, OnlyTheManifestTellsHowLongAStructuredSampleIs) {
  const Workload made = of_format(folder("a"), "npy");
  Workload wanted = made;
  wanted.dataset.record_length_bytes = 20'000;
  const std::string other = generated(made);
  EXPECT_THAT(check(wanted, other).error().message(), HasSubstr("were generated"));
  EXPECT_TRUE(check(wanted, other, /*is_ours=*/false).ok());
  // But bytes without a structure have nothing else.
  Workload raw = wanted;
  raw.dataset.format = DatasetFormat::kRaw;
  EXPECT_FALSE(check(raw, std::string(10'000, 'x'), /*is_ours=*/false).ok());
  EXPECT_TRUE(check(raw, std::string(141 * 141, 'x'), /*is_ours=*/false).ok());
}

TEST_F(SampleCheckTest, TextIsLookedAtWithoutParsingItsNumbers) {
  Workload json = of_format(folder("j"), "jsonl");
  EXPECT_FALSE(check(json, R"({"data": [1, 2]})").ok()) << "10,000 were generated";
  json.dataset.record_dims = {2};
  EXPECT_TRUE(check(json, R"({"data": [1, 2], "a": "]}\"{"} )").ok());
  for (const char* bad :
       {R"({"data": [1, 2])", R"({"data": [1]} {)", R"({"data": "})", "x", R"(]{"data": [1]})"}) {
    EXPECT_FALSE(check(json, bad).ok()) << bad;
  }
  Workload csv = of_format(folder("c"), "csv");
  csv.dataset.record_dims = {4};
  EXPECT_TRUE(check(csv, "1,2,3,4").ok());
  EXPECT_FALSE(check(csv, "1,2,3").ok());
  EXPECT_FALSE(check(csv, "xyzxyzxyz").ok());
  csv.reader.decode = true;
  EXPECT_TRUE(check(csv, "1,2,3,4").ok());
  EXPECT_FALSE(check(csv, "1,2,3").ok());
}

TEST_F(SampleCheckTest, ARowOfTheSameShapeAsABadOneIsBadToo) {
  // Rows of HDF5 and Parquet are not split again if they look like the row before.
  Workload made = of_format(folder("p"), "parquet");
  const auto format = open_dataset_format(made.dataset);
  ASSERT_TRUE(format.ok());
  const std::string whole = generated(made);
  auto opened = (*format)->open(*io::open_engine("posix"), {Layout::of(made)->path({})}, 1);
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  data::Buffer room;
  const auto row = (*opened)->read(data::SampleId{}, room);
  ASSERT_TRUE(row.ok());
  made.dataset.record_length_bytes = 20'000;
  auto same = open_dataset_format(made.dataset);
  const auto check = SampleCheck::of(made, *std::move(same), true);
  CheckScratch scratch;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(check->check({}, *row, scratch).ok());
}

}  // namespace
}  // namespace millrace::bench
