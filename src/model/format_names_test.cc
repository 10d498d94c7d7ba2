#include "model/format_names.h"

#include <gtest/gtest.h>

namespace millrace::model {
namespace {

TEST(FormatNames, TheExtensionDecides) {
  EXPECT_EQ(format_of_name(".jpg", "/d/a.jpg").format, "jpeg");
  EXPECT_EQ(format_of_name(".JPEG", "/d/a.JPEG").format, "jpeg");
  EXPECT_EQ(format_of_name(".npz", "/d/a.npz").format, "npz");
  EXPECT_EQ(format_of_name(".h5", "/d/a.h5").format, "hdf5");
  EXPECT_EQ(format_of_name(".bin", "/d/a.bin").format, "raw");
  EXPECT_TRUE(format_of_name(".png", "/d/a.png").one_sample_per_file);
  EXPECT_FALSE(format_of_name(".npy", "/d/a.npy").one_sample_per_file);
}

TEST(FormatNames, ShardsWithoutAnExtensionAreTfrecord) {
  EXPECT_EQ(format_of_name("(none)", "/d/train-00003-of-00128").format, "tfrecord");
  EXPECT_EQ(format_of_name(".tfrecord-00003", "/d/x.tfrecord-00003").format, "tfrecord");
  EXPECT_EQ(format_of_name("(none)", "/d/a-of-b").format, "raw");
}

TEST(FormatNames, CompressionIsSeparate) {
  const FormatName name = format_of_name(".csv.gz", "/d/a.csv.gz");
  EXPECT_EQ(name.format, "csv");
  EXPECT_EQ(name.compression, "gzip");
}

TEST(FormatNames, UnknownFilesAreRaw) {
  const FormatName name = format_of_name(".nii.gz", "/d/a.nii.gz");
  EXPECT_EQ(name.format, "raw");
  EXPECT_EQ(name.compression, "none");
  EXPECT_FALSE(name.known);
}

TEST(StoredSize, TurnsTheSizeOfAFileIntoThatOfARecord) {
  EXPECT_DOUBLE_EQ(stored_size_of("raw").record_bytes(1000, 10), 100);
  EXPECT_DOUBLE_EQ(stored_size_of("npy").record_bytes(1128, 1), 1000);
  EXPECT_DOUBLE_EQ(stored_size_of("tfrecord").record_bytes(1160, 10), 100);
  EXPECT_NEAR(stored_size_of("jpeg").record_bytes(55'980, 1), 100'000, 1);
}

TEST(StoredSize, ARecordHasAtLeastOneByte) {
  EXPECT_DOUBLE_EQ(stored_size_of("npy").record_bytes(10, 1), 1);
  EXPECT_DOUBLE_EQ(stored_size_of("raw").record_bytes(0, 0), 1);
}

}  // namespace
}  // namespace millrace::model
