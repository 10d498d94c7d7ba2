#include "bench/generate/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

using data::ElementType;
using data::Shape;

Workload unet3d() {
  Workload workload;
  workload.dataset.format = DatasetFormat::kNpz;
  workload.dataset.num_files_train = 168;
  workload.dataset.record_length_bytes = 146600628;
  workload.dataset.record_length_bytes_stdev = 68341808;
  return workload;
}

FileId train(uint64_t index) { return {.split = Split::kTrain, .index = index}; }
FileId eval(uint64_t index) { return {.split = Split::kEval, .index = index}; }

TEST(Layout, HasTheSizesOfUnet3dThatDlioWrites) {
  const auto layout = *Layout::of(unet3d());
  EXPECT_EQ(layout.record_shape(train(0)), (Shape{15865, 14125}));
  EXPECT_EQ(layout.record_shape(train(1)), (Shape{7745, 12083}));
  EXPECT_EQ(layout.record_shape(train(2)), (Shape{13860, 10074}));
  EXPECT_EQ(layout.payload_bytes(Split::kTrain), 25'285'981'919u);
  EXPECT_EQ(layout.payload_bytes(Split::kEval), 0u);
}

TEST(Layout, DrawsTheSizesOfCosmoflow) {
  Workload workload;
  workload.dataset.num_files_train = 524288;
  workload.dataset.record_length_bytes = 2828486;
  workload.dataset.record_length_bytes_stdev = 71311;
  const auto layout = *Layout::of(workload);
  EXPECT_EQ(layout.record_shape(train(0)), (Shape{1709, 1696}));
}

TEST(Layout, MakesASquareOfAFractionalRecord) {
  Workload workload;
  workload.dataset.record_length_bytes = 114660.07;
  workload.dataset.num_files_train = 1024;
  workload.dataset.num_samples_per_file = 1251;
  const auto layout = *Layout::of(workload);
  EXPECT_EQ(layout.record_shape(train(1023)), (Shape{338, 338}));
  EXPECT_EQ(layout.record_bytes(train(7)), 114244u);
  EXPECT_EQ(layout.payload_bytes(Split::kTrain), uint64_t{1024} * 1251 * 114244);
}

TEST(Layout, DrawsEvaluationFilesAfterTrainingFiles) {
  Workload workload = unet3d();
  workload.dataset.num_files_train = 1;
  workload.dataset.num_files_eval = 2;
  const auto layout = *Layout::of(workload);
  EXPECT_EQ(layout.record_shape(eval(0)), (Shape{7745, 12083}));
  EXPECT_EQ(layout.record_shape(eval(1)), (Shape{13860, 10074}));
  EXPECT_EQ(layout.file_at(0), train(0));
  EXPECT_EQ(layout.file_at(2), eval(1));
}

TEST(Layout, NamesFilesLikeDlio) {
  Workload workload = unet3d();
  workload.dataset.data_folder = "data/unet3d/";
  workload.dataset.num_files_eval = 9;
  const auto layout = *Layout::of(workload);
  EXPECT_EQ(layout.path(train(7)), "data/unet3d/train/img_007_of_168.npz");
  EXPECT_EQ(layout.path(eval(3)), "data/unet3d/valid/img_3_of_9.npz");
}

TEST(Layout, PutsFilesIntoSubfoldersInTurn) {
  Workload workload;
  workload.dataset.data_folder = "data";
  workload.dataset.num_files_train = 1000;
  workload.dataset.num_subfolders_train = 10;
  workload.dataset.num_files_eval = 2;
  workload.dataset.num_subfolders_eval = 1;
  const auto layout = *Layout::of(workload);
  EXPECT_EQ(layout.path(train(23)), "data/train/03/img_0023_of_1000.tfrecord");
  EXPECT_EQ(layout.path(eval(1)), "data/valid/img_1_of_2.tfrecord");  // no subfolder
}

TEST(Layout, JoinsTheFolderToTheStorageRoot) {
  Workload workload;
  workload.storage_root = "root/of/storage";
  workload.dataset.data_folder = "data/";
  EXPECT_EQ(data_folder_of(workload), "root/of/storage/data");
  workload.dataset.data_folder = "/data/";
  EXPECT_EQ(data_folder_of(workload), "/data");
}

TEST(Layout, TakesDimensionsAndTypeOfTheRecord) {
  Workload workload;
  workload.dataset.record_dims = {3, 224, 224};
  workload.dataset.record_element_type = ElementType::kF32;
  const auto layout = *Layout::of(workload);
  EXPECT_EQ(layout.record_shape(train(0)), (Shape{3, 224, 224}));
  EXPECT_EQ(layout.record_bytes(train(0)), uint64_t{3} * 224 * 224 * 4);
}

TEST(Layout, NeedsEightBytesForAFileWhoseSizeVaries) {
  Workload workload;
  workload.dataset.num_files_train = 1'000'000;
  workload.dataset.record_length_bytes = 1 << 20;
  workload.dataset.record_length_bytes_stdev = 1 << 14;
  const auto layout = *Layout::of(workload);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 1'000'000; ++i) sum += layout.record_bytes(train(i));
  EXPECT_EQ(sum, layout.payload_bytes(Split::kTrain));
  EXPECT_NEAR(static_cast<double>(sum) / 1e6, 1 << 20, 3000);
}

TEST(Layout, RefusesImpossibleSizes) {
  Workload workload;
  workload.dataset.record_dims = {uint64_t{1} << 40};
  workload.dataset.num_samples_per_file = uint64_t{1} << 40;
  const auto layout = Layout::of(workload);
  ASSERT_FALSE(layout.ok());
  EXPECT_THAT(layout.error().message(), testing::HasSubstr("num_samples_per_file"));
}

}  // namespace
}  // namespace millrace::bench
