#include "bench/workload/compose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/io/temporary_directory.h"
#include "bench/workload/load.h"

namespace millrace::bench {
namespace {

using testing::HasSubstr;

class ComposeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder() / "workload" / "dataset");
    write("config.yaml",
          "defaults:\n - _self_\n - workload: job\n - override hydra/job_logging: disabled\n"
          "hydra:\n  run:\n    dir: ./results/${workload.model}/${now:%Y}\n");
    write("workload/job.yaml",
          "# A job. Of ours.\ndefaults:\n - base\n - dataset: large\n - _self_\n"
          "train: {epochs: 2}\n");
    write("workload/base.yaml", "model: {name: base}\ntrain:\n  epochs: 9\n  seed: 4\n");
    write("workload/dataset/large.yaml", "num_files_train: 4000\n");
  }

  std::filesystem::path folder() const { return directory_.path(); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder() / name) << text;
  }

  Result<Workload> load(const std::string& name, std::vector<std::string> overrides = {}) {
    return load_workload(
        {.workload = name, .overrides = std::move(overrides), .config_dir = folder(), .scale = 1});
  }

  std::string error_of(const std::string& name, std::vector<std::string> overrides = {}) {
    const Result<Workload> workload = load(name, std::move(overrides));
    return workload.ok() ? "no error" : workload.error().message();
  }

 private:
  TemporaryDirectory directory_ = *TemporaryDirectory::create();
};

TEST_F(ComposeTest, DefaultsAreMergedInTheirOrder) {
  const Result<Workload> workload = load("job");
  ASSERT_TRUE(workload.ok()) << workload.error().message();
  EXPECT_EQ(workload->name, "job");
  EXPECT_EQ(workload->description, "A job. Of ours.");
  EXPECT_EQ(workload->model.name, "base");
  EXPECT_EQ(workload->train.epochs, 2u);
  EXPECT_EQ(workload->train.seed, 4u);
  EXPECT_EQ(workload->dataset.num_files_train, 4000u);
}

TEST_F(ComposeTest, WhatFollowsSelfWins) {
  write("workload/job.yaml", "defaults:\n - _self_\n - base.yaml\ntrain: {epochs: 2}\n");
  EXPECT_EQ(load("job")->train.epochs, 9u);
}

TEST_F(ComposeTest, TheMainFileChoosesIfNobodyElseDoes) {
  EXPECT_EQ(load("")->train.seed, 4u);
  EXPECT_EQ(load("", {"workload=base"})->train.epochs, 9u);
  EXPECT_EQ(load("job", {"workload=unet3d_h100", "++workload.train.epochs=1"})->model.name,
            "unet3d");
  EXPECT_EQ(load("workload=base")->train.epochs, 9u);
}

TEST_F(ComposeTest, SomebodyMustChoose) {
  write("config.yaml", "defaults:\n - _self_\n - workload:\n");
  EXPECT_THAT(error_of(""), HasSubstr("which workload?"));
  EXPECT_EQ(load("base")->train.epochs, 9u);
}

TEST_F(ComposeTest, AWorkloadMayBeInAFolder) {
  std::filesystem::create_directories(folder() / "workload" / "large");
  write("workload/large/job.yaml", "train: {epochs: 6}\n");
  EXPECT_EQ(load("large/job")->train.epochs, 6u);
  EXPECT_EQ(load("base.yaml")->train.epochs, 9u);
}

TEST_F(ComposeTest, APathNeedsNoFolder) {
  const auto workload = load_workload({.workload = (folder() / "workload/base.yaml").string(),
                                       .overrides = {"dataset.num_files_train=64"},
                                       .config_dir = {},
                                       .scale = 0.5});
  ASSERT_TRUE(workload.ok()) << workload.error().message();
  EXPECT_EQ(workload->name, "base");
  EXPECT_EQ(workload->dataset.num_files_train, 32u);
}

TEST_F(ComposeTest, AFolderThatIsNotThereIsNotTheOneThatIsShipped) {
  const auto workload = load_workload(
      {.workload = "small", .overrides = {}, .config_dir = folder() / "missing", .scale = 1});
  ASSERT_FALSE(workload.ok());
  EXPECT_THAT(workload.error().message(), HasSubstr("missing: there is no such folder"));
}

TEST_F(ComposeTest, ErrorsNameTheFileThatIsWrong) {
  write("workload/base.yaml", "model: {name: base}\ntrain:\n  epoch: 9\n");
  EXPECT_THAT(error_of("job"), HasSubstr("workload/base.yaml:3: unknown key 'train.epoch'"));
  write("workload/base.yaml", "model: {name: base\n");
  EXPECT_THAT(error_of("job"), HasSubstr("workload/base.yaml:"));
  std::filesystem::remove(folder() / "workload/base.yaml");
  EXPECT_THAT(error_of("job"), HasSubstr("workload/job.yaml:3: there is no base.yaml beside"));
  EXPECT_THAT(error_of("./nothing.yaml"), HasSubstr("nothing.yaml: cannot open"));
}

TEST_F(ComposeTest, AFileThatNamesItselfIsRefused) {
  write("workload/base.yaml", "defaults: [base]\n");
  EXPECT_THAT(error_of("base"), HasSubstr("does one name itself?"));
}

TEST_F(ComposeTest, APackageCommentMovesTheKeys) {
  write("workload/base.yaml", "# @package workload.train\nepochs: 8\n");
  EXPECT_EQ(load("base")->train.epochs, 8u);
  write("workload/base.yaml", "# @package _global_\nworkload:\n  train:\n    epochs: 7\n");
  EXPECT_EQ(load("base")->train.epochs, 7u);
}

TEST_F(ComposeTest, TextAloneReadsNoFiles) {
  const auto composition = compose_text("defaults: [base]\n", (folder() / "workload/x.yaml"), {});
  ASSERT_FALSE(composition.ok());
  EXPECT_THAT(composition.error().message(), HasSubstr("there is no base.yaml"));
}

}  // namespace
}  // namespace millrace::bench
