#include "bench/workload/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/workload/load.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string error_of(std::string_view text) {
  const Result<Workload> workload = parse_workload(text, "w.yaml");
  return workload.ok() ? "no error" : workload.error().message();
}

std::string warning_of(std::string_view text) {
  const Result<Workload> workload = parse_workload(text, "w.yaml");
  if (!workload.ok()) return workload.error().message();
  return workload->warnings.empty() ? "no warning" : workload->warnings[0];
}

TEST(Check, TheDefaultsAgree) { EXPECT_THAT(contradictions(Workload{}), IsEmpty()); }

TEST(Check, ABatchFitsIntoTheDataset) {
  EXPECT_EQ(error_of("dataset: {num_files_train: 8}\nreader:\n  batch_size: 16\n"),
            "w.yaml:3: reader.batch_size: a batch of 16 is more than the 8 samples of the dataset; "
            "raise num_files_train");
}

TEST(Check, NamesTheSectionIfTheKeyIsNotInTheFile) {
  EXPECT_THAT(error_of("train: {}\nworkflow:\n  evaluation: true\n"),
              HasSubstr("w.yaml:3: workflow.evaluation: there are no files to evaluate"));
  EXPECT_THAT(error_of("checkpoint:\n  write_mode: local_flush\n"), HasSubstr("w.yaml:2: "));
}

TEST(Check, ShapesHaveTheSameRank) {
  EXPECT_THAT(error_of("dataset:\n  format: hdf5\n  record_dims: [4, 4]\n  hdf5:\n"
                       "    chunk_dims: [4]\n"),
              HasSubstr("w.yaml:5: dataset.hdf5.chunk_dims: it has 1 dimensions, but record_dims "
                        "has 2"));
  EXPECT_THAT(
      error_of("dataset: {format: hdf5, record_dims: [5], hdf5: {num_dset_per_record: 2}}\n"),
      HasSubstr("2 does not divide 5"));
  EXPECT_THAT(error_of("dataset: {record_dims: [4], record_length_bytes_stdev: 3}\n"),
              HasSubstr("have one size"));
  EXPECT_THAT(error_of("dataset: {record_dims: [9000000000, 9000000000, 9000000000]}\n"),
              HasSubstr("not a shape"));
}

TEST(Check, CountsAreNotZero) {
  for (const char* text : {"dataset: {num_samples_per_file: 0}", "dataset: {num_files_train: 0}",
                           "reader: {batch_size: 0}", "train: {epochs: 0}",
                           "model: {parallelism: {tensor: 0}}", "dataset: {record_dims: [0]}"}) {
    EXPECT_THAT(error_of(text), HasSubstr("it must be at least 1")) << text;
  }
  EXPECT_THAT(error_of("dataset: {record_length_bytes: 0}"), HasSubstr("not the size of a sample"));
  EXPECT_THAT(error_of("dataset: {num_files_train: 9000000000000, num_samples_per_file: 900000}"),
              HasSubstr("more samples than can be counted"));
}

TEST(Check, CheckpointsHaveWhatTheyNeed) {
  EXPECT_THAT(error_of("workflow: {checkpoint: true}\ncheckpoint: {mode: subset}\n"),
              HasSubstr("a subset needs a model with layers"));
  EXPECT_THAT(error_of("workflow: {checkpoint: true}\ncheckpoint: {mode: subset}\n"
                       "model: {num_layers: 2, layer_parameters: [1]}\n"),
              HasSubstr("set model.parallelism.data"));
  EXPECT_THAT(error_of("model: {parallelism: {zero_stage: 4}}\n"), HasSubstr("not one of 0, 1"));
  EXPECT_THAT(error_of("model: {parallelism: {zero_stage: 3, pipeline: 2}}\n"),
              HasSubstr("stage 3 excludes a pipeline"));
  EXPECT_THAT(error_of("model: {num_layers: 2, parallelism: {pipeline: 4}}\n"),
              HasSubstr("2 layers cannot be shared"));
  EXPECT_THAT(error_of("workflow: {checkpoint: true}\n"
                       "checkpoint: {num_checkpoints_write: 2, num_checkpoints_read: 3}\n"),
              HasSubstr("3 is more than num_checkpoints_write, 2"));
  EXPECT_THAT(error_of("checkpoint: {file_sizes: [1]}\n"), HasSubstr("layout: tensorflow"));
}

TEST(Check, DirectReadsAreWholeBlocks) {
  EXPECT_THAT(error_of("reader: {odirect: true, transfer_size: 1000}\n"),
              HasSubstr("1000 is not a multiple of 512"));
  EXPECT_EQ(error_of("reader: {odirect: true, transfer_size: 4096}\n"), "no error");
}

TEST(Check, WarnsOfWhatHasNoEffect) {
  EXPECT_THAT(warning_of("dataset: {format: npz, hdf5: {chunk_dims: [4]}}\n"),
              HasSubstr("w.yaml:1: dataset.hdf5: it has no effect on the format npz"));
  EXPECT_THAT(warning_of("dataset: {num_subfolders_train: 100}\n"), HasSubstr("some stay empty"));
  EXPECT_THAT(warning_of("workflow: {checkpoint: true}\ntrain: {total_training_steps: 10}\n"
                         "checkpoint: {steps_between_checkpoints: 20}\n"),
              HasSubstr("no checkpoint is written"));
  EXPECT_THAT(warning_of("reader: {data_loader: pytorch, shuffle_size: 10}\n"),
              HasSubstr("reader.shuffle_size: it has no effect here: the loader pytorch"));
  EXPECT_THAT(warning_of("reader: {data_loader: dali, computation_threads: 8}\n"),
              HasSubstr("reader.computation_threads: it has no effect here"));
  EXPECT_THAT(warning_of("reader: {transformed_record_element_type: float32}\n"),
              HasSubstr("transformed_record_dims is not set"));
  EXPECT_THAT(warning_of("dataset: {record_length_bytes_resize: 9}\n"
                         "reader: {transformed_record_dims: [3]}\n"),
              HasSubstr("reader.transformed_record_dims is set"));
  EXPECT_THAT(warning_of("workflow: {train: false, generate_data: true}\n"
                         "dataset: {keep_files: false}\n"),
              HasSubstr("only a run that trains deletes"));
  EXPECT_THAT(warning_of("reader: {pin_memory: true}\n"), HasSubstr("there is no accelerator"));
  EXPECT_THAT(warning_of("workflow: {profiling: true}\n"), HasSubstr("millrace trace"));
  EXPECT_THAT(warning_of("dataset: {format: parquet, parquet: {read_mode: file}}\n"),
              HasSubstr("row groups are read"));
}

TEST(Check, BuffersAndMaximaAreLargeEnough) {
  EXPECT_THAT(error_of("dataset: {generation_buffer_size: 100}\n"), HasSubstr("less than 4 KiB"));
  constexpr std::string_view kDataset =
      "dataset: {{format: hdf5, num_samples_per_file: 4, record_dims: [8, 6], hdf5: {{max_shape: "
      "{}}}}}\n";
  EXPECT_THAT(error_of(fmt::format(kDataset, "[8, 5]")), HasSubstr("5 is less than the 6"));
  EXPECT_THAT(error_of(fmt::format(kDataset, "[3, 8, 6]")), HasSubstr("3 is less than the 4"));
  EXPECT_EQ(error_of(fmt::format(kDataset, "[100, 8, 6]")), "no error");
}

}  // namespace
}  // namespace millrace::bench
