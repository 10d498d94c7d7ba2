#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "analyze/analyze.h"
#include "analyze/testing/trace_builder.h"
#include "base/io/temporary_directory.h"
#include "model/modelled_text.h"

namespace millrace::model {
namespace {

using namespace std::chrono_literals;
using analyze::Program;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;

// A training over files of one sample, with one worker. Each step waits 1 ms and computes 20 ms;
// the loop does something else for 9 ms more.
struct SmallJob {
  int64_t files = 40;
  int64_t batch = 4;
  int64_t epochs = 2;
  bool shuffled = true;
  std::string folder = "/data/train";
  std::string extension = "npy";
  uint64_t size = 4224;
  bool checkpoints = false;      // after each epoch
  int64_t checkpoint_files = 1;  // of each of these
  int64_t step_checkpoints = 0;  // steps from one to the next
};

class ModelTest : public testing::Test {
 protected:
  static constexpr nanoseconds kStep = 30ms;

  ModelTest() : directory_(*TemporaryDirectory::create()) {}

  void train(const SmallJob& job) {
    const Program main = job_.program({.command = "python3 -u jobs/train.py --fast"});
    const Program worker = job_.program({.parent_pid = main.pid()});
    main.open("/usr/lib/libx.so", {.at = 1ms});  // a worker starts after its parent
    nanoseconds now = 100ms;
    for (int64_t epoch = 0; epoch < job.epochs; ++epoch) {
      main.region("setup", {.at = now, .takes = 1ms, .epoch = epoch});
      now += 5ms;
      const std::vector<int64_t> order = order_of(job, epoch);
      for (int64_t step = 0; step < job.files / job.batch; ++step) {
        fetch(worker, job, now, epoch,
              {order.begin() + step * job.batch, order.begin() + (step + 1) * job.batch});
        main.region("batch_wait", {.at = now, .takes = 1ms, .epoch = epoch, .step = step});
        main.region("compute", {.at = now + 1ms, .takes = 20ms, .epoch = epoch, .step = step});
        now += kStep;
        if (job.step_checkpoints > 0 && (step + 1) % job.step_checkpoints == 0) save(main, now);
      }
      for (int64_t i = 0; job.checkpoints && i < job.checkpoint_files; ++i) save(main, now);
    }
  }

  void save(const Program& main, nanoseconds& now) {
    const std::string file = "/out/model.pt";
    main.open(file, {.at = now, .detail = 0101});
    main.write(file, {.at = now + 100us, .takes = 5ms, .offset = 0, .size = 1'000'000});
    main.call(wire::Call::kFsync, file, {.at = now + 6ms, .takes = 1ms});
    main.close(file, {.at = now + 8ms});
    main.region("checkpoint", {.at = now, .takes = 10ms});
    now += 11ms;
  }

  analyze::Profile profile() { return analyze::profile_of(job_.finish(), {}, {.all_steps = true}); }

  static std::string value(const Modelled& modelled, std::string_view key) {
    for (const DerivedKey& each : modelled.keys) {
      if (each.key == key) return each.value;
    }
    return "(not set)";
  }

  TemporaryDirectory directory_;
  analyze::TraceBuilder job_{directory_.path() / "job.mrt"};

 private:
  static std::vector<int64_t> order_of(const SmallJob& job, int64_t epoch) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < job.files; ++i) order.push_back(i);
    // Steps of 7 or 11 files through the list: not by name, and different in each epoch.
    const int64_t stride = epoch % 2 == 0 ? 7 : 11;
    for (int64_t i = 0; job.shuffled && i < job.files; ++i) {
      order[static_cast<size_t>(i)] = (i * stride + epoch) % job.files;
    }
    return order;
  }

  static void fetch(const Program& worker, const SmallJob& job, nanoseconds at, int64_t epoch,
                    const std::vector<int64_t>& samples) {
    nanoseconds now = at - 20ms;
    for (const int64_t sample : samples) {
      const std::string file =
          fmt::format("{}/{}/{:05}.{}", job.folder, sample % 2, sample, job.extension);
      worker.open(file, {.at = now, .takes = 10us});
      worker.fstat(file, {.at = now + 20us, .takes = 1us, .size = job.size});
      worker.read(file, {.at = now + 50us, .takes = 100us, .offset = 0, .size = job.size});
      worker.close(file, {.at = now + 200us, .takes = 1us});
      worker.region("read", {.at = now, .takes = 1ms, .epoch = epoch, .tags = {{"index", sample}}});
      now += 1ms;
    }
    worker.region("fetch", {.at = at - 20ms,
                            .takes = now - at + 20ms,
                            .epoch = epoch,
                            .tags = {{"samples", static_cast<int64_t>(samples.size())}}});
  }
};

TEST_F(ModelTest, FilesOfOneSampleReadInANewOrderEveryEpoch) {
  train({});
  const Modelled modelled = *model_of(profile());
  const bench::Workload& workload = modelled.workload;
  EXPECT_EQ(modelled.ranks, 1u);
  EXPECT_EQ(workload.name, "train");
  EXPECT_EQ(workload.dataset.format, bench::DatasetFormat::kNpy);
  EXPECT_EQ(workload.dataset.num_files_train, 40u);
  EXPECT_EQ(workload.dataset.num_samples_per_file, 1u);
  EXPECT_EQ(workload.dataset.num_subfolders_train, 2u);
  EXPECT_EQ(workload.dataset.record_length_bytes, 4096);
  EXPECT_EQ(workload.dataset.record_length_bytes_stdev, 0);
  EXPECT_EQ(workload.reader.batch_size, 4u);
  EXPECT_EQ(workload.reader.read_threads, 1u);
  EXPECT_EQ(workload.reader.file_shuffle, bench::Shuffle::kSeed);
  EXPECT_EQ(workload.reader.sample_shuffle, bench::Shuffle::kSeed);
  EXPECT_EQ(workload.train.epochs, 2u);
  EXPECT_FALSE(workload.workflow.checkpoint);
  EXPECT_FALSE(workload.workflow.evaluation);
}

TEST_F(ModelTest, ComputeIsAllThatTheLoopDoesBesidesWaiting) {
  train({});
  const Modelled modelled = *model_of(profile());
  EXPECT_NEAR(modelled.workload.train.computation_time.first, 0.029, 1e-4);
}

TEST_F(ModelTest, PreprocessingIsTheTimeOfLoadingOutsideOfIo) {
  train({});
  const Modelled modelled = *model_of(profile());
  EXPECT_NEAR(modelled.workload.reader.preprocess_time.first, 0.001 - 0.000112, 2e-5);
}

TEST_F(ModelTest, ReadsByNameAreNotShuffled) {
  train({.shuffled = false});
  const Modelled modelled = *model_of(profile());
  EXPECT_EQ(value(modelled, "reader.file_shuffle"), "\"off\"");
  EXPECT_EQ(value(modelled, "reader.sample_shuffle"), "\"off\"");
}

TEST_F(ModelTest, EveryValueHasAReasonExceptTheWorkflow) {
  train({.checkpoints = true});
  const Modelled modelled = *model_of(profile());
  for (const DerivedKey& key : modelled.keys) {
    EXPECT_TRUE(key.why != "" || key.key == "workflow.train") << key.key;
  }
}

TEST_F(ModelTest, CheckpointsAfterEachEpoch) {
  train({.epochs = 3, .checkpoints = true});
  const Modelled modelled = *model_of(profile());
  const bench::CheckpointConfig& checkpoint = modelled.workload.checkpoint;
  EXPECT_TRUE(modelled.workload.workflow.checkpoint);
  EXPECT_EQ(modelled.workload.model.model_size_bytes, 1'000'000u);
  EXPECT_EQ(checkpoint.checkpoint_after_epoch, 1u);
  EXPECT_EQ(checkpoint.epochs_between_checkpoints, 1u);
  EXPECT_EQ(checkpoint.steps_between_checkpoints, 0u);
  EXPECT_EQ(checkpoint.type, bench::CheckpointType::kRankZero);
  EXPECT_TRUE(checkpoint.fsync);
  EXPECT_EQ(checkpoint.write_mode, bench::WriteMode::kSync);
  EXPECT_NEAR(modelled.workload.train.computation_time.first, 0.029, 1e-4)
      << "checkpoints are not compute";
}

TEST_F(ModelTest, ModelAndOptimizerAreOneCheckpoint) {
  train({.epochs = 3, .checkpoints = true, .checkpoint_files = 2});
  const analyze::Profile job = profile();
  ASSERT_EQ(job.checkpoints.size(), 6u);
  const Modelled modelled = *model_of(job);
  EXPECT_EQ(modelled.workload.checkpoint.checkpoint_after_epoch, 1u);
  EXPECT_EQ(modelled.workload.checkpoint.epochs_between_checkpoints, 1u);
  EXPECT_EQ(modelled.workload.checkpoint.steps_between_checkpoints, 0u);
  EXPECT_EQ(modelled.workload.model.model_size_bytes, 2'000'000u);
  EXPECT_THAT(modelled_yaml(modelled), HasSubstr("3 checkpoints"));
}

TEST_F(ModelTest, AJobOfPytorchIsOneEvenIfItLooksAtTensorflow) {
  train({});
  const Program main = job_.program({.command = "python3 train.py"});
  main.open("/usr/lib/python3/dist-packages/torch/__init__.py", {.at = 1ms});
  main.open("/usr/lib/python3/dist-packages/tensorflow/__init__.py", {.at = 2ms});
  main.region("backward", {.at = 200ms, .takes = 1ms});
  const Modelled modelled = *model_of(profile());
  EXPECT_EQ(modelled.workload.framework, bench::Framework::kPytorch);
  EXPECT_EQ(modelled.workload.reader.data_loader, bench::DataLoader::kPytorch);
}

TEST_F(ModelTest, AJobOfTensorflowIsOneEvenIfItImportsTorch) {
  train({});
  const Program main = job_.program({.command = "python3 train.py"});
  main.open("/usr/lib/python3/dist-packages/torch/__init__.py", {.at = 1ms});
  main.open("/usr/lib/python3/dist-packages/tensorflow/__init__.py", {.at = 2ms});
  EXPECT_EQ(model_of(profile())->workload.framework, bench::Framework::kTensorflow);
}

TEST_F(ModelTest, CheckpointsEveryFewSteps) {
  train({.files = 48, .epochs = 1, .step_checkpoints = 3});
  const bench::CheckpointConfig checkpoint = model_of(profile())->workload.checkpoint;
  EXPECT_EQ(checkpoint.steps_between_checkpoints, 3u);
}

TEST_F(ModelTest, SeveralSamplesInAFile) {
  analyze::Profile seen = [&] {
    train({.files = 40});
    return profile();
  }();
  // The same reads, but of ten times as many samples.
  seen.loading.samples *= 10;
  seen.data.samples_indexed = 0;
  const Modelled modelled = *model_of(seen);
  EXPECT_EQ(modelled.workload.dataset.num_files_train, 40u);
  EXPECT_EQ(modelled.workload.dataset.num_samples_per_file, 10u);
  EXPECT_EQ(modelled.workload.reader.batch_size, 40u);
  EXPECT_NEAR(modelled.workload.dataset.record_length_bytes, 409.6, 1);
}

TEST_F(ModelTest, APartOfAnEpochEndsAfterItsSteps) {
  analyze::Profile seen = [&] {
    train({.files = 40});
    return profile();
  }();
  seen.epochs.resize(1);
  seen.job.epochs = 1;
  seen.job.steps = 4;
  seen.epochs.front().steps = 4;
  seen.ranks.front().steps = 4;
  seen.steps.duration_ns.count = 4;
  seen.loading.batches = 4;
  seen.loading.samples = 16;
  seen.data.samples_indexed = 16;
  const Modelled modelled = *model_of(seen);
  EXPECT_EQ(modelled.workload.dataset.num_files_train, 40u);
  EXPECT_EQ(modelled.workload.reader.batch_size, 4u);
  EXPECT_EQ(modelled.workload.train.epochs, 1u);
  EXPECT_EQ(modelled.workload.train.total_training_steps, 4u);
  EXPECT_THAT(modelled.assumptions, Contains(HasSubstr("16 of 40 samples")));
}

TEST_F(ModelTest, FormatsThatBenchLacksAreRaw) {
  train({.extension = "tiff"});
  const Modelled modelled = *model_of(profile());
  EXPECT_EQ(modelled.workload.dataset.format, bench::DatasetFormat::kRaw);
  EXPECT_THAT(modelled.keys, Contains(AllOf(Field(&DerivedKey::key, "dataset.format"),
                                            Field(&DerivedKey::assumed, true))));
  EXPECT_THAT(modelled.assumptions, Contains(HasSubstr("*.tiff")));
}

TEST_F(ModelTest, FilesOfEvaluationsAreKnownByTheirFolder) {
  const Program main = job_.program({});
  for (int i = 0; i < 30; ++i) {
    const std::string file = fmt::format("/data/{}/{:05}.jpg", i % 3 == 0 ? "val" : "train", i);
    const nanoseconds at = 10ms * i;
    main.open(file, {.at = at});
    main.fstat(file, {.at = at + 20us, .size = 40'380});
    main.read(file, {.at = at + 50us, .takes = 100us, .offset = 0, .size = 40'380});
    main.close(file, {.at = at + 1ms});
  }
  const Modelled modelled = *model_of(profile());
  EXPECT_EQ(modelled.workload.dataset.num_files_train, 20u);
  EXPECT_EQ(modelled.workload.dataset.num_files_eval, 10u);
  EXPECT_EQ(modelled.workload.dataset.format, bench::DatasetFormat::kJpeg);
  EXPECT_NEAR(modelled.workload.dataset.record_length_bytes, 40'000 / 0.556, 1);
}

TEST_F(ModelTest, WithoutRegionsBatchesAreAssumed) {
  const Program main = job_.program({});
  for (int i = 0; i < 30; ++i) {
    main.read(fmt::format("/data/{:05}.bin", i), {.at = 10ms * i, .offset = 0, .size = 1000});
  }
  const Modelled modelled = *model_of(profile());
  EXPECT_EQ(modelled.workload.reader.batch_size, 1u);
  EXPECT_THAT(modelled.missing, Contains(HasSubstr("no regions of a training loop")));
}

TEST_F(ModelTest, AJobThatReadsNothingCannotBeModelled) {
  job_.program({}).write("/out/log.txt", {.at = 1ms, .offset = 0, .size = 10});
  const auto modelled = model_of(profile());
  ASSERT_FALSE(modelled.ok());
  EXPECT_THAT(modelled.error().message(), HasSubstr("nothing to model"));
}

TEST_F(ModelTest, NamesAreSafeInPathsAndYaml) {
  train({});
  const Modelled modelled = *model_of(profile(), {.name = "../my job: 1"});
  EXPECT_EQ(modelled.workload.name, "___my_job__1");
  EXPECT_EQ(modelled.workload.dataset.data_folder, "data/___my_job__1/");
}

TEST(Model, DataInMemoryIsSynthetic) {
  analyze::Profile profile;
  profile.job.command = "train";
  profile.job.epochs = 1;
  profile.job.steps = 10;
  profile.epochs.emplace_back().steps = 10;
  profile.steps.duration_ns.count = 10;
  profile.loading.batches = 10;
  profile.loading.samples = 320;
  const Modelled modelled = *model_of(profile);
  EXPECT_EQ(modelled.workload.dataset.format, bench::DatasetFormat::kSynthetic);
  EXPECT_EQ(modelled.workload.dataset.num_files_train, 320u);
  EXPECT_EQ(modelled.workload.reader.batch_size, 32u);
}

}  // namespace
}  // namespace millrace::model
