#include "model/format_names.h"

#include <gtest/gtest.h>

namespace millrace::model {
namespace {

using bench::DatasetFormat;

TEST(FormatNames, TheExtensionDecides) {
  EXPECT_EQ(format_of_name(".jpg", "/d/a.jpg").format, DatasetFormat::kJpeg);
  EXPECT_EQ(format_of_name(".JPEG", "/d/a.JPEG").format, DatasetFormat::kJpeg);
  EXPECT_EQ(format_of_name(".npz", "/d/a.npz").format, DatasetFormat::kNpz);
  EXPECT_EQ(format_of_name(".h5", "/d/a.h5").format, DatasetFormat::kHdf5);
  EXPECT_EQ(format_of_name(".bin", "/d/a.bin").format, DatasetFormat::kRaw);
  EXPECT_TRUE(format_of_name(".png", "/d/a.png").one_sample_per_file);
  EXPECT_FALSE(format_of_name(".npy", "/d/a.npy").one_sample_per_file);
}

TEST(FormatNames, ShardsWithoutAnExtensionAreTfrecord) {
  EXPECT_EQ(format_of_name("(none)", "/d/train-00003-of-00128").format, DatasetFormat::kTfrecord);
  EXPECT_EQ(format_of_name(".tfrecord-00003", "/d/x.tfrecord-00003").format,
            DatasetFormat::kTfrecord);
  EXPECT_EQ(format_of_name("(none)", "/d/a-of-b").format, DatasetFormat::kRaw);
}

TEST(FormatNames, CompressionIsSeparate) {
  const FormatName name = format_of_name(".csv.gz", "/d/a.csv.gz");
  EXPECT_EQ(name.format, DatasetFormat::kCsv);
  EXPECT_EQ(name.compression, bench::Compression::kGzip);
}

TEST(FormatNames, UnknownFilesAreRaw) {
  const FormatName name = format_of_name(".nii.gz", "/d/a.nii.gz");
  EXPECT_EQ(name.format, DatasetFormat::kRaw);
  EXPECT_EQ(name.compression, bench::Compression::kNone);
  EXPECT_FALSE(name.known);
}

TEST(StoredSize, TurnsTheSizeOfAFileIntoThatOfARecord) {
  EXPECT_DOUBLE_EQ(stored_size_of(DatasetFormat::kRaw).record_bytes(1000, 10), 100);
  EXPECT_DOUBLE_EQ(stored_size_of(DatasetFormat::kNpy).record_bytes(1128, 1), 1000);
  EXPECT_DOUBLE_EQ(stored_size_of(DatasetFormat::kTfrecord).record_bytes(1160, 10), 100);
  EXPECT_NEAR(stored_size_of(DatasetFormat::kJpeg).record_bytes(55'980, 1), 100'000, 1);
}

TEST(StoredSize, ARecordHasAtLeastOneByte) {
  EXPECT_DOUBLE_EQ(stored_size_of(DatasetFormat::kNpy).record_bytes(10, 1), 1);
  EXPECT_DOUBLE_EQ(stored_size_of(DatasetFormat::kRaw).record_bytes(0, 0), 1);
}

}  // namespace
}  // namespace millrace::model
