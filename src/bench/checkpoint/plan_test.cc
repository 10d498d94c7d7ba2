#include "bench/checkpoint/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace millrace::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kGiB = 1024.0 * 1024 * 1024;

// A model of MLPerf Storage.
ModelConfig llama(uint64_t layers, Transformer shape, Parallelism parallelism) {
  ModelConfig model;
  model.type = "transformer";
  model.num_layers = layers;
  model.transformer = shape;
  model.parallelism = parallelism;
  return model;
}

ModelConfig llama_8b() {
  return llama(32, {128256, 4096, 14336, 32, 8},
               {.tensor = 1, .pipeline = 1, .data = 0, .zero_stage = 3});
}
ModelConfig llama_70b() {
  return llama(80, {128256, 8192, 28672, 128, 8},
               {.tensor = 8, .pipeline = 1, .data = 0, .zero_stage = 3});
}
ModelConfig llama_405b() {
  return llama(126, {128256, 16384, 53248, 128, 8},
               {.tensor = 8, .pipeline = 32, .data = 0, .zero_stage = 1});
}
ModelConfig llama_1t() {
  return llama(128, {128256, 25872, 98304, 192, 32},
               {.tensor = 8, .pipeline = 64, .data = 0, .zero_stage = 1});
}

ModelConfig megatron_deepspeed() {
  ModelConfig model;
  model.type = "megatron_deepspeed";
  model.optimization_groups = {1009254400, 865075200, 793600};
  model.num_layers = 40;
  model.layer_parameters = {52583936, 209715200};
  model.parallelism = {.tensor = 4, .pipeline = 8, .data = 0, .zero_stage = 1};
  return model;
}

CheckpointPlan plan_of(const ModelConfig& model, uint64_t ranks, CheckpointConfig config = {}) {
  auto plan = CheckpointPlan::make(model, config, ranks);
  EXPECT_TRUE(plan.ok()) << plan.error().message();
  return *std::move(plan);
}

std::string error_of(const ModelConfig& model, uint64_t ranks, CheckpointConfig config = {}) {
  const auto plan = CheckpointPlan::make(model, config, ranks);
  return plan.ok() ? "" : plan.error().message();
}

std::vector<std::string> names(const std::vector<PlannedFile>& files) {
  std::vector<std::string> found;
  for (const PlannedFile& file : files) found.push_back(file.name);
  return found;
}

// What the first ranks write together.
struct Size {
  uint64_t size_bytes = 0;
  uint64_t file_count = 0;
};

Size size_of_ranks(const CheckpointPlan& plan, uint64_t count) {
  Size size;
  for (uint64_t rank = 0; rank < count; ++rank) {
    for (const PlannedFile& file : plan.files_of(rank)) {
      size.size_bytes += file.size_bytes;
      ++size.file_count;
    }
  }
  return size;
}

Size size_of(const CheckpointPlan& plan) { return size_of_ranks(plan, plan.job_rank_count()); }

void expect_size(const CheckpointPlan& plan, uint64_t files, double gib) {
  const Size size = size_of(plan);
  EXPECT_EQ(size.file_count, files);
  EXPECT_NEAR(static_cast<double>(size.size_bytes) / kGiB, gib, 0.005);
}

TEST(CheckpointPlan, TheModelsOfMlperfHaveTheirSizesAndFiles) {
  EXPECT_EQ(plan_of(llama_8b(), 8).parameter_count(), 8'030'261'248u);
  expect_size(plan_of(llama_8b(), 8), 16, 104.70);
  expect_size(plan_of(llama_70b(), 64), 128, 911.21);
  expect_size(plan_of(llama_405b(), 512), 1544, 5292.25);
  expect_size(plan_of(llama_1t(), 1024), 2072, 15426.59);
}

TEST(CheckpointPlan, NoTwoRanksWriteOneFile) {
  for (const CheckpointPlan& plan :
       {plan_of(llama_70b(), 64), plan_of(llama_405b(), 512), plan_of(megatron_deepspeed(), 64)}) {
    std::set<std::string> seen;
    for (uint64_t rank = 0; rank < plan.job_rank_count(); ++rank) {
      for (const PlannedFile& file : plan.files_of(rank)) {
        EXPECT_TRUE(seen.insert(file.name).second) << file.name;
      }
    }
  }
}

TEST(CheckpointPlan, ZeroStage3ShardsModelAndOptimizer) {
  const CheckpointPlan plan = plan_of(llama_8b(), 8);
  const auto files = plan.files_of(3);
  EXPECT_THAT(names(files), ElementsAre("zero_pp_rank_3_mp_rank_0_model_states.pt",
                                        "zero_pp_rank_3_mp_rank_0_optim_states.pt"));
  // Embedding, 32 layers of 6 tensors, head, norm.
  ASSERT_EQ(files[0].tensors.size(), 1 + 32 * 6 + 1 + 1u);
  EXPECT_EQ(files[0].tensors[0].group, "0");
  EXPECT_EQ(files[0].tensors[0].count, 128256u * 4096 / 8);
  EXPECT_EQ(files[0].tensors[1].group, "1");
  EXPECT_EQ(files[0].tensors[0].type, data::ElementType::kF16);
  ASSERT_EQ(files[1].tensors.size(), 6u);
  EXPECT_EQ(files[1].tensors[0].count, 8'030'261'248u / 8);
  EXPECT_EQ(files[1].tensors[1].count, 4096u * 5);
  EXPECT_EQ(files[1].tensors[0].type, data::ElementType::kF32);
}

TEST(CheckpointPlan, APipelineWritesAFilePerLayerAndOnlyFromTheFirstReplica) {
  const CheckpointPlan plan = plan_of(llama_405b(), 512);
  // 126 layers in 32 stages: the first 30 have 4, the others 3; the first also has the embedding.
  EXPECT_THAT(names(plan.files_of(9)),
              ElementsAre("layer_5-model_9_model_states.pt", "layer_6-model_9_model_states.pt",
                          "layer_7-model_9_model_states.pt", "layer_8-model_9_model_states.pt",
                          "zero_pp_rank_0_mp_rank_9_optim_states.pt"));
  EXPECT_EQ(plan.files_of(0).size(), 5 + 1u);
  EXPECT_EQ(plan.files_of(255).front().name, "layer_124-model_255_model_states.pt");
  EXPECT_EQ(plan.files_of(255).size(), 3 + 2 + 1u);
  EXPECT_THAT(names(plan.files_of(256)), ElementsAre("zero_pp_rank_1_mp_rank_0_optim_states.pt"));
}

TEST(CheckpointPlan, ListedLayersAndGroupsAreBytes) {
  const CheckpointPlan plan = plan_of(megatron_deepspeed(), 32);
  const auto files = plan.files_of(4);  // stage 1: layers 6 to 10
  EXPECT_THAT(names(files),
              ElementsAre("model_states-4.pt", "layer_6-model_4_model_states.pt",
                          "layer_7-model_4_model_states.pt", "layer_8-model_4_model_states.pt",
                          "layer_9-model_4_model_states.pt", "layer_10-model_4_model_states.pt",
                          "zero_pp_rank_0_mp_rank_4_optim_states.pt"));
  EXPECT_EQ(files[0].size_bytes, 10240u);
  EXPECT_EQ(files[1].size_bytes, (52583936u + 209715200u) / 4);
  EXPECT_EQ(files[6].size_bytes, 3 * uint64_t{1009254400 + 865075200 + 793600});
  EXPECT_EQ(files[6].tensors.back().name, "combined");
  EXPECT_EQ(size_of(plan).file_count, 32u + 40 * 4 + 32);
  EXPECT_EQ(size_of(plan).size_bytes,
            32u * 10240 + 40 * (uint64_t{52583936} + 209715200) + 32 * files[6].size_bytes);
}

// A quirk of DLIO.
TEST(CheckpointPlan, WithoutGroupsTheOptimizerFollowsTheShapeEvenIfLayersAreListed) {
  ModelConfig model = llama_8b();
  model.layer_parameters = {1000};
  const auto files = plan_of(model, 8).files_of(0);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].size_bytes, 32u * 1000);
  EXPECT_EQ(files[1].tensors[0].count, 8'030'261'248u / 8);
}

TEST(CheckpointPlan, WithTwoReplicasOnlyOptimizerFilesAreAdded) {
  const CheckpointPlan plan = plan_of(megatron_deepspeed(), 64);
  EXPECT_THAT(names(plan.files_of(36)),
              ElementsAre("model_states-36.pt", "zero_pp_rank_1_mp_rank_4_optim_states.pt"));
}

TEST(CheckpointPlan, AModelByBytesIsWrittenByTheFirstRankOrByAll) {
  ModelConfig model;
  model.model_size_bytes = 4'034'713'312;
  const CheckpointPlan first = plan_of(model, 4);
  EXPECT_THAT(names(first.files_of(0)), ElementsAre("model_states-0.pt"));
  EXPECT_THAT(first.files_of(1), IsEmpty());
  EXPECT_EQ(size_of(first).size_bytes, 4'034'713'312u);
  CheckpointConfig all;
  all.type = CheckpointType::kAllRanks;
  const CheckpointPlan each = plan_of(model, 4, all);
  EXPECT_THAT(names(each.files_of(3)), ElementsAre("model_states-3.pt"));
  EXPECT_EQ(size_of(each).size_bytes, 4 * uint64_t{4'034'713'312});
}

TEST(CheckpointPlan, WithoutZeroTheFirstReplicaWritesAll) {
  ModelConfig model = llama_8b();
  model.parallelism = {.tensor = 2, .pipeline = 2, .data = 0, .zero_stage = 0};
  const CheckpointPlan plan = plan_of(model, 8);
  EXPECT_THAT(names(plan.files_of(3)), ElementsAre("zero_pp_rank_0_mp_rank_3_model_states.pt",
                                                   "zero_pp_rank_0_mp_rank_3_optim_states.pt"));
  EXPECT_THAT(plan.files_of(4), IsEmpty());
  EXPECT_EQ(plan.files_of(3)[1].tensors[0].count, 8'030'261'248u / 4);
}

TEST(CheckpointPlan, StagesOneAndTwoWithoutAPipelineWriteOneModelFile) {
  ModelConfig model = llama_8b();
  for (const uint32_t stage : {1u, 2u}) {
    model.parallelism.zero_stage = stage;
    const CheckpointPlan plan = plan_of(model, 8);
    EXPECT_THAT(names(plan.files_of(0)),
                ElementsAre("model_0_model_states.pt", "zero_pp_rank_0_mp_rank_0_optim_states.pt"));
    EXPECT_THAT(names(plan.files_of(7)), ElementsAre("zero_pp_rank_7_mp_rank_0_optim_states.pt"));
  }
}

TEST(CheckpointPlan, ASubsetWritesWhatItsRanksWouldInTheWholeJob) {
  ModelConfig model = llama_405b();
  const CheckpointPlan whole = plan_of(model, 512);
  model.parallelism.data = 2;
  CheckpointConfig subset;
  subset.mode = CheckpointMode::kSubset;
  const CheckpointPlan plan = plan_of(model, 8, subset);
  EXPECT_EQ(plan.job_rank_count(), 512u);
  for (uint64_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(names(plan.files_of(rank)), names(whole.files_of(rank)));
  }
  EXPECT_EQ(size_of(plan).size_bytes, size_of(whole).size_bytes);
  EXPECT_EQ(size_of_ranks(plan, 8).file_count, 8u * 6);
  EXPECT_LT(size_of_ranks(plan, 8).size_bytes, size_of(whole).size_bytes / 32);
}

TEST(CheckpointPlan, TensorFlowHasItsFourFiles) {
  CheckpointConfig config;
  config.layout = CheckpointLayout::kTensorflow;
  config.file_sizes = {1000, 7'000'000, 32'000'000, 4500};
  const CheckpointPlan plan = plan_of({}, 2, config);
  const auto files = plan.files_of(0, 150);
  EXPECT_THAT(names(files), ElementsAre("model.ckpt-150.data-00000-of-00001", "model.ckpt-150.meta",
                                        "model.ckpt-150.index", "checkpoint"));
  EXPECT_EQ(files[0].size_bytes, 7'000'000u);
  EXPECT_EQ(files[1].size_bytes, 32'000'000u);
  EXPECT_EQ(files[2].size_bytes, 4500u);
  EXPECT_EQ(files[3].size_bytes, 1000u);
  EXPECT_THAT(plan.files_of(1), IsEmpty());
}

TEST(CheckpointPlan, TensorFlowOnAllRanksHasADataFilePerRank) {
  CheckpointConfig config;
  config.layout = CheckpointLayout::kTensorflow;
  config.type = CheckpointType::kAllRanks;
  const CheckpointPlan plan = plan_of({}, 2, config);
  EXPECT_THAT(names(plan.files_of(0, 7)),
              ElementsAre("model.ckpt-7.data-00000-of-00002", "model.ckpt-7.meta",
                          "model.ckpt-7.index", "checkpoint"));
  EXPECT_THAT(names(plan.files_of(1, 7)), ElementsAre("model.ckpt-7.data-00001-of-00002"));
}

TEST(CheckpointPlan, RanksThatDoNotFitAreRefused) {
  EXPECT_EQ(error_of(llama_70b(), 12),
            "model.parallelism: 12 ranks are not a multiple of 8 (tensor 8 x pipeline 1); start "
            "that many, or set checkpoint.mode: subset and model.parallelism.data");
  ModelConfig model = llama_70b();
  model.parallelism.data = 8;
  EXPECT_THAT(error_of(model, 8), HasSubstr("8 ranks are not 64 (tensor 8 x pipeline 1 x data 8)"));
  CheckpointConfig subset;
  subset.mode = CheckpointMode::kSubset;
  EXPECT_THAT(error_of(model, 65, subset), HasSubstr("a subset of 65 ranks is larger"));
  EXPECT_THAT(error_of(llama_70b(), 0), HasSubstr("with 0 ranks"));
}

TEST(CheckpointPlan, ModelsThatCannotBeAreRefused) {
  ModelConfig model = llama_8b();
  model.transformer->num_attention_heads = 0;
  EXPECT_THAT(error_of(model, 1), HasSubstr("among 0 attention heads"));
  model = llama_8b();
  model.transformer->hidden_size = uint64_t{1} << 40;
  EXPECT_THAT(error_of(model, 1), HasSubstr("too many to plan"));
}

}  // namespace
}  // namespace millrace::bench
