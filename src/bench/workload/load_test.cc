#include "bench/workload/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Workload parsed(std::string_view text, std::vector<std::string> overrides = {}) {
  Result<Workload> workload = parse_workload(text, "w.yaml", overrides);
  EXPECT_TRUE(workload.ok()) << workload.error().message();
  return workload.ok() ? *workload : Workload{};
}

std::string error_of(std::string_view text, std::vector<std::string> overrides = {}) {
  const Result<Workload> workload = parse_workload(text, "w.yaml", overrides);
  return workload.ok() ? "no error" : workload.error().message();
}

// As DLIO's files are written: one space or two, no quotes, capitalised booleans.
constexpr std::string_view kTrained =
    "# @package _global_\n"
    "model: \n"
    "  name: net\n"
    "  model_size: 499153191\n"
    "framework: pytorch\n"
    "workflow:\n"
    " generate_data: False\n"
    " train: True\n"
    " checkpoint: True\n"
    "dataset:\n"
    " data_folder: data/${model.name}\n"
    " format: npz\n"
    " num_files_train: 168\n"
    " record_length_bytes: 146600628\n"
    " record_length_bytes_stdev: 68341808\n"
    "data_reader:\n"
    " data_loader: pytorch\n"
    " batch_size: 4\n"
    " file_shuffle: off\n"
    " sample_shuffle: seed\n"
    " transfer_size: None\n"
    " dont_use_mmap: True\n"
    "train:\n"
    " epochs: 5\n"
    " computation_time: 1.3604\n"
    " total_training_steps: -1\n"
    "checkpoint:\n"
    " checkpoint_after_epoch: 5\n"
    " time_between_checkpoints: -1\n"
    "metric:\n"
    " au: 0.90\n";

TEST(Load, ReadsAFileOfDlio) {
  const Workload workload = parsed(kTrained);
  EXPECT_EQ(workload.name, "w");
  EXPECT_EQ(workload.model.name, "net");
  EXPECT_EQ(workload.model.model_size_bytes, 10240u);
  EXPECT_TRUE(workload.workflow.checkpoint);
  EXPECT_EQ(workload.dataset.data_folder, "data/net");
  EXPECT_EQ(workload.dataset.num_files_train, 168u);
  EXPECT_EQ(workload.dataset.record_length_bytes_stdev, 68341808);
  EXPECT_EQ(workload.reader.data_loader, DataLoader::kPytorch);
  EXPECT_EQ(workload.reader.file_shuffle, Shuffle::kOff);
  EXPECT_EQ(workload.reader.sample_shuffle, Shuffle::kSeed);
  EXPECT_EQ(workload.reader.transfer_size, 0u);
  EXPECT_EQ(workload.train.computation_time, (TimeModel{.first = 1.3604}));
  EXPECT_EQ(workload.train.total_training_steps, 0u);
  EXPECT_EQ(workload.checkpoint.time_between_checkpoints_s, 0);
  EXPECT_FALSE(workload.model.transformer.has_value());
}

TEST(Load, WarnsAboutKeysThatMeanNothing) {
  EXPECT_THAT(parsed(kTrained).warnings,
              ElementsAre("w.yaml:4: model.model_size is ignored: DLIO does not read it either; "
                          "model_size_bytes sets the checkpoint's size",
                          "w.yaml:22: reader.dont_use_mmap is ignored: no reader maps files"));
}

TEST(Load, TakesTheOldNamesOfKeys) {
  const Workload workload = parsed(
      "dataset: {record_length: 4096, num_files_eval: 4}\n"
      "workflow: {do_eval: True}\n"
      "checkpoint: {num_layers: 44, layer_parameters: [7, 8]}\n");
  EXPECT_EQ(workload.dataset.record_length_bytes, 4096);
  EXPECT_TRUE(workload.workflow.evaluation);
  EXPECT_EQ(workload.model.num_layers, 44);
  EXPECT_THAT(workload.model.layer_parameters, ElementsAre(7, 8));
  EXPECT_THAT(
      workload.warnings,
      testing::Contains("w.yaml:1: dataset.record_length is dataset.record_length_bytes now"));
}

TEST(Load, PrefersThePresentNameOfAKey) {
  const Workload workload = parsed("dataset: {record_length: 1, record_length_bytes: 2}\n");
  EXPECT_EQ(workload.dataset.record_length_bytes, 2);
  EXPECT_THAT(workload.warnings,
              ElementsAre("w.yaml:1: dataset.record_length is ignored: dataset.record_length_bytes "
                          "is set"));
}

TEST(Load, AnEmptyFileIsTheDefault) {
  const Workload workload = parsed("");
  EXPECT_EQ(workload.reader.data_loader, DataLoader::kNative);
  EXPECT_EQ(workload.framework, Framework::kPytorch);
  EXPECT_EQ(workload.dataset.num_files_train, 8u);
  EXPECT_EQ(workload.metric_au, 0.90);
  EXPECT_THAT(workload.warnings, IsEmpty());
}

TEST(Load, NamesTheLineOfAnUnknownKeyAndSuggests) {
  EXPECT_EQ(error_of("dataset:\n  format: npz\n  num_file_train: 3\n"),
            "w.yaml:3: unknown key 'dataset.num_file_train'; did you mean 'num_files_train'?");
  EXPECT_EQ(error_of("datset:\n  format: npz\n"),
            "w.yaml:1: unknown key 'datset'; did you mean 'dataset'?");
  EXPECT_EQ(error_of("dataset: {format: npzz}\n").substr(0, 45),
            "w.yaml:1: dataset.format: 'npzz' is not one o");
  EXPECT_THAT(error_of("train: {epochs: many}\n"), HasSubstr("expected a whole number"));
  EXPECT_THAT(error_of("train: 3\n"), HasSubstr("w.yaml:1: train: expected a section with keys"));
  EXPECT_THAT(error_of("- a\n"), HasSubstr("w.yaml:1: expected keys such as dataset"));
}

TEST(Load, AnErrorInAnOverrideNamesTheOverride) {
  EXPECT_EQ(error_of("train: {epochs: 1}\n", {"train.epoch=1"}),
            "the override 'train.epoch=1': unknown key 'train.epoch'; did you mean 'epochs'?");
  EXPECT_EQ(error_of("", {"++workload.reader.batch_size=-4"}),
            "the override '++workload.reader.batch_size=-4': reader.batch_size: expected a whole "
            "number that is not negative, found '-4'");
  EXPECT_EQ(error_of("", {"~train.epochs"}), "the override '~train.epochs': there is no such key");
}

TEST(Load, OverridesChangeTheFile) {
  const Workload workload = parsed(
      kTrained, {"workload.train.epochs=1", "reader.batch_size=2", "data_reader.pin_memory=no",
                 "~workload.model.model_size", "++workload.dataset.record_length_bytes=2MiB",
                 "++hydra.run.dir=results", "model.optimization_groups=[1, 2]"});
  EXPECT_EQ(workload.train.epochs, 1u);
  EXPECT_EQ(workload.reader.batch_size, 2u);
  EXPECT_FALSE(workload.reader.pin_memory);
  EXPECT_EQ(workload.dataset.record_length_bytes, 2 << 20);
  EXPECT_EQ(workload.output.folder, "results");
  EXPECT_THAT(workload.model.optimization_groups, ElementsAre(1, 2));
  EXPECT_EQ(workload.warnings.size(), 1u);
}

TEST(Load, ReadsTimes) {
  using Kind = TimeModel::Kind;
  const auto time_of = [](const std::string& value) {
    return parsed("train: {computation_time: " + value + "}\n").train.computation_time;
  };
  EXPECT_EQ(time_of("2"), (TimeModel{Kind::kConstant, 2, 0}));
  EXPECT_EQ(time_of("{mean: 2}"), (TimeModel{Kind::kConstant, 2, 0}));
  EXPECT_EQ(time_of("2, computation_time_stdev: 0.5"), (TimeModel{Kind::kNormal, 2, 0.5}));
  EXPECT_EQ(time_of("{mean: 2, stdev: 0.5}"), (TimeModel{Kind::kNormal, 2, 0.5}));
  EXPECT_EQ(time_of("{type: normal, mean: 2, stdev: 0.5}"), (TimeModel{Kind::kNormal, 2, 0.5}));
  EXPECT_EQ(time_of("{type: uniform, min: 1, max: 2}"), (TimeModel{Kind::kUniform, 1, 2}));
  EXPECT_EQ(time_of("{type: gamma, shape: 3, scale: 2}"), (TimeModel{Kind::kGamma, 3, 2}));
  EXPECT_EQ(time_of("{type: exponential, scale: 2}"), (TimeModel{Kind::kExponential, 2, 0}));
  EXPECT_EQ(time_of("{type: poisson, lam: 2}"), (TimeModel{Kind::kPoisson, 2, 0}));
}

TEST(Load, RefusesTimesThatAreNone) {
  EXPECT_THAT(error_of("train: {computation_time: -1}\n"), HasSubstr("not a number from 0 on"));
  EXPECT_THAT(error_of("train: {computation_time: nan}\n"), HasSubstr("not a number from 0 on"));
  EXPECT_THAT(error_of("train: {computation_time: {type: uniform, min: 2, max: 1}}\n"),
              HasSubstr("1 is less than min, 2"));
  EXPECT_THAT(error_of("train: {computation_time: {type: gama}}\n"),
              HasSubstr("did you mean 'gamma'?"));
  EXPECT_THAT(error_of("train: {computation_time: {type: gamma, shape: 1}}\n"),
              HasSubstr("the key 'train.computation_time.scale' is missing"));
  EXPECT_THAT(error_of("train: {computation_time: {mean: 1, sdev: 1}}\n"),
              HasSubstr("unknown key 'train.computation_time.sdev'; did you mean 'stdev'?"));
}

TEST(Load, RefusesObjectStores) {
  EXPECT_EQ(error_of("storage:\n  storage_type: s3\n  storage_root: bucket\n"
                     "  storage_options: {region: us-east-1}\n"),
            "w.yaml:2: storage.storage_type: 's3' is not supported, only file systems are; mount "
            "the bucket and set local_fs");
  EXPECT_THAT(error_of("dataset: {data_folder: 's3://bucket'}\n"),
              HasSubstr("object stores are not supported"));
  EXPECT_EQ(parsed("storage: {storage_type: parallel_fs}\n").storage_type, Storage::kLocalFs);
}

TEST(Load, ReadsTheTransformerOfACheckpoint) {
  const Workload workload = parsed(
      "model:\n  type: transformer\n  num_layers: 32\n  parallelism: {zero_stage: 3, data: -1}\n"
      "  transformer: {vocab_size: 128256}\n"
      "workflow: {train: False, checkpoint: True}\n");
  ASSERT_TRUE(workload.model.transformer.has_value());
  EXPECT_EQ(workload.model.transformer->vocab_size, 128256u);
  EXPECT_EQ(workload.model.transformer->hidden_size, 2048u);
  EXPECT_EQ(workload.model.parallelism.data, 0u);
}

TEST(Load, ReadsColumnsAndFields) {
  const Workload workload = parsed(
      "dataset:\n  format: parquet\n  parquet:\n    row_group_size: 64\n    columns:\n"
      "    - {name: a, dtype: float32, size: 4}\n    - {name: b, dtype: uint8, read: False}\n"
      "  fields: [{name: label, dims: [2, 3], type: int32}]\n");
  ASSERT_EQ(workload.dataset.columns.size(), 2u);
  EXPECT_EQ(workload.dataset.columns[0].size, 4u);
  EXPECT_FALSE(workload.dataset.columns[1].is_read);
  EXPECT_EQ(workload.dataset.row_group_size, 64u);
  ASSERT_EQ(workload.dataset.fields.size(), 1u);
  EXPECT_THAT(workload.dataset.fields[0].dims, ElementsAre(2, 3));
  EXPECT_EQ(workload.dataset.fields[0].type, data::ElementType::kI32);
  EXPECT_THAT(error_of("dataset: {parquet: {columns: [{nam: a}]}}\n"),
              HasSubstr("the key 'dataset.parquet.columns[0].name' is missing"));
  EXPECT_THAT(error_of("dataset: {parquet: {columns: [{name: a}, {name: a}]}}\n"),
              HasSubstr("another item has the same name"));
}

TEST(Load, TheShapeOfASampleDecidesItsSize) {
  const Workload workload = parsed(
      "dataset:\n  record_dims: [4, 8]\n  record_element_type: float32\n"
      "  record_length_bytes: 7\n");
  EXPECT_EQ(workload.dataset.record_length_bytes, 128);
  EXPECT_THAT(workload.warnings, ElementsAre("w.yaml:4: dataset.record_length_bytes: 7 is ignored: "
                                             "record_dims is 128 bytes"));
}

TEST(Load, ReadsJsonInBuildsWithoutYaml) {
  const auto workload = parse_workload(R"({"train": {"epochs": 3}})", "w.json", {});
  ASSERT_TRUE(workload.ok()) << workload.error().message();
  EXPECT_EQ(workload->train.epochs, 3u);
}

TEST(Load, ReadsTheConfigurationThatHydraSavesOfARun) {
  const Workload workload = parsed(
      "hydra:\n  run: {dir: \"${now:%Y}\"}\nworkload:\n  model: net\n  train: {epochs: 3}\n");
  EXPECT_EQ(workload.train.epochs, 3u);
  EXPECT_EQ(workload.model.name, "net");
}

TEST(Load, ResolvesInterpolations) {
  const Workload workload = parsed(
      "model: {name: net}\n"
      "dataset:\n  num_files_train: 16\n  num_files_eval: ${.num_files_train}\n"
      "  record_dims: [4, 4]\n  data_folder: ${oc.env:MILLRACE_NO_SUCH,data}/${workload.model.name}\n"
      "reader:\n  transformed_record_dims: ${dataset.record_dims}\n"
      "  batch_size: ${..dataset.num_files_train}\n");
  EXPECT_EQ(workload.dataset.num_files_eval, 16u);
  EXPECT_EQ(workload.dataset.data_folder, "data/net");
  EXPECT_EQ(workload.reader.batch_size, 16u);
  EXPECT_THAT(workload.reader.transformed_record_dims, ElementsAre(4, 4));
}

TEST(Load, RefusesInterpolationsWithoutAValue) {
  EXPECT_EQ(error_of("model:\n  name: ${train.x}\n"), "w.yaml:2: ${train.x}: there is no such key");
  EXPECT_THAT(error_of("a: ${b}\nb: ${a}\n"), HasSubstr("too many ${...} refer to each other"));
  EXPECT_THAT(error_of("model: {name: 'x${dataset'}\n"), HasSubstr("a ${ has no }"));
  EXPECT_THAT(error_of("model: {name: '${train}'}\ntrain: {epochs: 1}\n"),
              HasSubstr("${train} is a section"));
  EXPECT_THAT(error_of("model: {name: '${eval:1+1}'}\n"),
              HasSubstr("${eval:...} is not supported"));
  EXPECT_THAT(error_of("model: {name: '${oc.env:MILLRACE_NO_SUCH}'}\n"),
              HasSubstr("MILLRACE_NO_SUCH is not set"));
}

TEST(Load, AnInterpolationThatGrowsIsRefused) {
  std::string text = "a0: " + std::string(1000, 'x') + "\n";
  for (int i = 1; i <= 15; ++i) {
    text += fmt::format("a{}: \"${{a{}}}${{a{}}}${{a{}}}\"\n", i, i - 1, i - 1, i - 1);
  }
  EXPECT_THAT(error_of(text), HasSubstr("${...}"));
}

TEST(Load, TwoNamesOfTheReaderAreRefused) {
  EXPECT_THAT(error_of("reader: {}\ndata_reader: {}\n"),
              HasSubstr("w.yaml:2: data_reader and reader are the same section"));
}

TEST(Load, AFrameworkBringsItsLoaderAndItsCheckpoints) {
  EXPECT_EQ(parsed("train: {epochs: 1}\n").reader.data_loader, DataLoader::kNative);
  const Workload pytorch = parsed("framework: pytorch\n");
  EXPECT_EQ(pytorch.reader.data_loader, DataLoader::kPytorch);
  EXPECT_EQ(pytorch.checkpoint.layout, CheckpointLayout::kTorch);
  const Workload tensorflow = parsed("framework: tensorflow\n");
  EXPECT_EQ(tensorflow.reader.data_loader, DataLoader::kTensorflow);
  EXPECT_EQ(tensorflow.checkpoint.layout, CheckpointLayout::kTensorflow);
  const Workload mixed = parsed(
      "framework: tensorflow\ndata_reader: {data_loader: native}\ncheckpoint: {layout: torch}\n");
  EXPECT_EQ(mixed.reader.data_loader, DataLoader::kNative);
  EXPECT_EQ(mixed.checkpoint.layout, CheckpointLayout::kTorch);
}

TEST(Load, ReadModesOfParquetAreOneAsInDlio) {
  const Workload workload = parsed("dataset: {parquet: {read_mode: default}}\n");
  EXPECT_EQ(workload.dataset.read_mode, ParquetReads::kRowGroup);
}

}  // namespace
}  // namespace millrace::bench
