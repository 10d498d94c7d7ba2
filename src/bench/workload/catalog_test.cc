#include "bench/workload/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/workload/check.h"
#include "bench/workload/load.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Workload shipped(const std::string& name) {
  Result<Workload> workload =
      load_workload({.workload = name, .overrides = {}, .config_dir = {}, .scale = 1});
  EXPECT_TRUE(workload.ok()) << workload.error().message();
  return workload.ok() ? *workload : Workload{};
}

TEST(Catalog, EveryShippedWorkloadLoadsAndSaysWhatItIs) {
  const std::vector<CatalogEntry> entries = list_workloads();
  EXPECT_GE(entries.size(), 42u) << workload_folder();
  for (const CatalogEntry& entry : entries) {
    EXPECT_THAT(entry.summary, testing::EndsWith(".")) << entry.name;
    const Workload workload = shipped(entry.name);
    EXPECT_EQ(workload.name, entry.name);
    EXPECT_THAT(workload.warnings, IsEmpty()) << entry.name;
    EXPECT_THAT(workload.description,
                testing::AnyOf(HasSubstr("Numbers: "), HasSubstr("estimate"), HasSubstr("numbers")))
        << entry.name << " does not say where its numbers come from";
  }
}

TEST(Catalog, EveryShippedWorkloadShrinks) {
  for (const CatalogEntry& entry : list_workloads()) {
    for (const double scale : {0.1, 0.001}) {
      const auto workload = load_workload(
          {.workload = entry.name, .overrides = {}, .config_dir = {}, .scale = scale});
      ASSERT_TRUE(workload.ok()) << entry.name << ": " << workload.error().message();
      const double bytes = static_cast<double>(train_sample_count(*workload)) *
                           workload->dataset.record_length_bytes;
      const Workload whole = shipped(entry.name);
      const double whole_bytes =
          static_cast<double>(train_sample_count(whole)) * whole.dataset.record_length_bytes;
      EXPECT_LE(bytes, std::max(whole_bytes * scale * 1.01, 0x1p30 * 1.01)) << entry.name;
      EXPECT_EQ(workload->reader.batch_size, whole.reader.batch_size);
    }
  }
}

TEST(Catalog, EveryShippedWorkloadSurvivesToYaml) {
  for (const CatalogEntry& entry : list_workloads()) {
    const std::string yaml = to_yaml(shipped(entry.name));
    const auto back = parse_workload(yaml, "w.yaml");
    ASSERT_TRUE(back.ok()) << back.error().message();
    EXPECT_EQ(to_yaml(*back), yaml);
  }
}

TEST(Catalog, HasTheNumbersOfMlperfStorage) {
  const Workload unet3d = shipped("unet3d_h100");
  EXPECT_EQ(unet3d.dataset.num_files_train, 168u);
  EXPECT_EQ(unet3d.dataset.record_length_bytes, 146600628);
  EXPECT_EQ(unet3d.reader.batch_size, 7u);
  EXPECT_EQ(unet3d.train.computation_time.first, 0.323);
  EXPECT_EQ(unet3d.reader.sample_shuffle, Shuffle::kSeed);
  const Workload cosmoflow = shipped("cosmoflow_a100");
  EXPECT_EQ(cosmoflow.train.computation_time.first, 0.00551);
  EXPECT_EQ(cosmoflow.metric_au, 0.70);
  const Workload resnet50 = shipped("resnet50_h100");
  EXPECT_EQ(resnet50.dataset.record_length_bytes, 114660.07);
  const Workload llama = shipped("llama3_1t");
  EXPECT_EQ(llama.model.transformer->hidden_size, 25872u);
  EXPECT_EQ(llama.model.num_layers, 128u);
  EXPECT_FALSE(llama.workflow.train);
  const Workload megatron = shipped("megatron_deepspeed");
  EXPECT_THAT(megatron.model.optimization_groups,
              testing::ElementsAre(1009254400, 865075200, 793600));
}

// The columns of a row add up to the size of a sample.
TEST(Catalog, ColumnsAddUp) {
  for (const char* name : {"dlrm_b200", "dlrm_mi355", "flux_b200", "flux_mi355"}) {
    const Workload workload = shipped(name);
    double bytes = 0;
    for (const Column& column : workload.dataset.columns) {
      const double element = column.dtype == "uint8" ? 1 : column.dtype == "uint16" ? 2 : 4;
      bytes += element * static_cast<double>(column.size);
    }
    EXPECT_EQ(bytes, workload.dataset.record_length_bytes) << name;
  }
  EXPECT_EQ(shipped("dlrm_b200").dataset.columns.size(), 200u);
}

TEST(Catalog, AnUnknownNameSuggests) {
  const auto path = find_workload("unet3d_h10", {});
  ASSERT_FALSE(path.ok());
  EXPECT_THAT(path.error().message(), HasSubstr("did you mean 'unet3d_h100'?"));
  EXPECT_FALSE(load_workload({}).ok());
}

TEST(Catalog, TheOpeningCommentIsText) {
  EXPECT_EQ(
      opening_comment("# @package workload\n# One\n# two.  \n#\n#\n# Three.\n\n# four\na: 1\n"),
      "One two.\nThree.");
  EXPECT_EQ(opening_comment("a: 1\n"), "");
  EXPECT_EQ(opening_comment("#"), "");
  EXPECT_EQ(first_sentence("3D U-Net, v1.2 of it. More.\nAnd."), "3D U-Net, v1.2 of it.");
  EXPECT_EQ(first_sentence("No end"), "No end");
}

}  // namespace
}  // namespace millrace::bench
