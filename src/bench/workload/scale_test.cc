#include "bench/workload/scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bench/workload/check.h"

namespace millrace::bench {
namespace {

using testing::ElementsAre;

Workload dataset_of(uint64_t files, uint64_t samples_per_file, double record_bytes,
                    uint64_t batch_size) {
  Workload workload;
  workload.dataset.num_files_train = files;
  workload.dataset.num_samples_per_file = samples_per_file;
  workload.dataset.record_length_bytes = record_bytes;
  workload.reader.batch_size = batch_size;
  return workload;
}

TEST(Scale, FilesOfOneSampleBecomeFewer) {
  Workload workload = dataset_of(524288, 1, 2828486, 1);
  workload.dataset.num_subfolders_train = 1000;
  ASSERT_TRUE(scale(workload, 0.01).ok());
  EXPECT_EQ(workload.dataset.num_files_train, 5243u);
  EXPECT_EQ(workload.dataset.num_subfolders_train, 10u);
  EXPECT_EQ(workload.dataset.num_samples_per_file, 1u);
  EXPECT_EQ(workload.dataset.record_length_bytes, 2828486);
  EXPECT_EQ(workload.reader.batch_size, 1u);
}

TEST(Scale, ManySamplesInAFileKeepEightFiles) {
  Workload workload = dataset_of(1024, 1251, 114660.07, 400);
  ASSERT_TRUE(scale(workload, 0.1).ok());
  EXPECT_EQ(workload.dataset.num_files_train, 102u);
  EXPECT_EQ(workload.dataset.num_samples_per_file, 1251u);
  workload = dataset_of(1024, 1251, 114660.07, 400);
  ASSERT_TRUE(scale(workload, 0.001).ok());
  EXPECT_EQ(workload.dataset.num_files_train, 8u);
  EXPECT_EQ(workload.dataset.num_samples_per_file, 800u);
  EXPECT_EQ(train_sample_count(workload), 16u * 400);
}

TEST(Scale, SixteenBatchesRemainAndShrinkToAGibibyte) {
  Workload workload = dataset_of(168, 1, 146600628, 7);
  workload.dataset.record_length_bytes_stdev = 68341808;
  ASSERT_TRUE(scale(workload, 0.01).ok());
  EXPECT_EQ(workload.dataset.num_files_train, 112u);
  EXPECT_NEAR(workload.dataset.record_length_bytes * 112, 0x1p30, 1);
  EXPECT_NEAR(workload.dataset.record_length_bytes_stdev / workload.dataset.record_length_bytes,
              68341808.0 / 146600628, 1e-9);
}

TEST(Scale, ShapesShrinkAlongTheirSlowAxes) {
  Workload workload = dataset_of(16, 1, 1, 4);
  workload.dataset.format = DatasetFormat::kHdf5;
  workload.dataset.record_dims = {512, 1024, 1024};
  workload.dataset.chunk_dims = {512, 64, 64};
  take_length_of_dims(workload);
  ASSERT_TRUE(scale(workload, 0.01).ok());
  EXPECT_THAT(workload.dataset.record_dims, ElementsAre(64, 1024, 1024));
  EXPECT_THAT(workload.dataset.chunk_dims, ElementsAre(64, 64, 64));
  EXPECT_EQ(workload.dataset.record_length_bytes, 64 << 20);
}

TEST(Scale, ColumnsAndFieldsShrinkWithTheirSample) {
  Workload workload = dataset_of(16, 1, 0x1p30, 4);
  workload.dataset.columns = {{"a", "uint8", 1 << 29, true}, {"b", "uint8", 1 << 29, true}};
  workload.dataset.fields = {{"mask", {64, 100}, data::ElementType::kU8}};
  ASSERT_TRUE(scale(workload, 0.01).ok());
  EXPECT_EQ(workload.dataset.record_length_bytes, 0x1p26);
  EXPECT_EQ(workload.dataset.columns[0].size, 1u << 25);
  EXPECT_THAT(workload.dataset.fields[0].dims, ElementsAre(4, 100));
}

TEST(Scale, ASmallDatasetStays) {
  Workload workload = dataset_of(4, 1, 4096, 1);
  ASSERT_TRUE(scale(workload, 0.001).ok());
  EXPECT_EQ(workload.dataset.num_files_train, 4u);
  EXPECT_EQ(workload.dataset.record_length_bytes, 4096);
}

TEST(Scale, AnEvaluationKeepsABatch) {
  Workload workload = dataset_of(1024, 700, 4096, 32);
  workload.workflow.evaluation = true;
  workload.dataset.num_files_eval = 1;
  workload.reader.batch_size_eval = 32;
  ASSERT_TRUE(scale(workload, 0.0001).ok());
  EXPECT_GE(eval_sample_count(workload), 32u);
}

TEST(Scale, AsManyCheckpointsAreWritten) {
  Workload workload;
  workload.train.total_training_steps = 1000;
  workload.checkpoint.steps_between_checkpoints = 250;
  workload.checkpoint.time_between_checkpoints_s = 5;
  workload.checkpoint.layout = CheckpointLayout::kTensorflow;
  workload.checkpoint.file_sizes = {1024, 7340032};
  workload.model.model_size_bytes = 4034713312;
  ASSERT_TRUE(scale(workload, 0.01).ok());
  EXPECT_EQ(workload.train.total_training_steps, 10u);
  EXPECT_EQ(workload.checkpoint.steps_between_checkpoints, 3u);
  EXPECT_EQ(workload.checkpoint.time_between_checkpoints_s, 0.05);
  EXPECT_THAT(workload.checkpoint.file_sizes, ElementsAre(10, 73400));
  EXPECT_EQ(workload.model.model_size_bytes, 40347133u);
}

TEST(Scale, ATransformerKeepsItsLayersAndHeads) {
  Workload workload;
  workload.model.num_layers = 126;
  workload.model.parallelism.tensor = 8;
  workload.model.transformer = Transformer{128256, 16384, 53248, 128, 8};
  ASSERT_TRUE(scale(workload, 0.01).ok());
  EXPECT_EQ(workload.model.num_layers, 126u);
  EXPECT_EQ(workload.model.transformer->hidden_size, 1664u);
  EXPECT_EQ(workload.model.transformer->hidden_size % 128, 0u);
  EXPECT_EQ(workload.model.transformer->ffn_hidden_size % 8, 0u);
  EXPECT_EQ(workload.model.transformer->num_attention_heads, 128u);
}

TEST(Scale, OneChangesNothingAndNonsenseIsRefused) {
  Workload workload = dataset_of(168, 1, 146600628, 7);
  EXPECT_TRUE(scale(workload, 1).ok());
  EXPECT_EQ(workload.dataset.num_files_train, 168u);
  for (const double share : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_FALSE(scale(workload, share).ok()) << share;
  }
}

}  // namespace
}  // namespace millrace::bench
