#include "bench/workload/datasize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

Workload workload_of(double record_bytes, uint64_t samples_per_file, uint64_t batch_size) {
  Workload workload;
  workload.dataset.record_length_bytes = record_bytes;
  workload.dataset.num_samples_per_file = samples_per_file;
  workload.reader.batch_size = batch_size;
  return workload;
}

TEST(DataSize, AgreesWithMlperfStorage) {
  const Workload unet3d = workload_of(146600628, 1, 7);
  const Workload resnet50 = workload_of(114660.07, 1251, 400);
  const Workload cosmoflow = workload_of(2828486, 1, 1);
  const auto files = [](const Workload& workload, uint64_t accelerators) {
    return required_data_size(workload, {accelerators, 1, 64 * kGib})->file_count;
  };
  EXPECT_EQ(files(unet3d, 4), 14000u);
  EXPECT_EQ(files(resnet50, 16), 2557u);
  EXPECT_EQ(files(cosmoflow, 16), 121477u);
}

TEST(DataSize, SaysWhichRuleDecides) {
  const Workload cosmoflow = workload_of(2828486, 1, 1);
  const auto size = required_data_size(cosmoflow, {16, 1, 64 * kGib});
  EXPECT_TRUE(size->is_by_memory());
  EXPECT_EQ(size->file_count_by_steps, 8000u);
  EXPECT_EQ(size->size_bytes, uint64_t{121477} * 2828486);
  EXPECT_FALSE(required_data_size(cosmoflow, {16, 1, kGib})->is_by_memory());
}

TEST(DataSize, HostsAddTheirMemory) {
  const Workload cosmoflow = workload_of(2828486, 1, 1);
  const auto size = required_data_size(cosmoflow, {1, 4, 16 * kGib});
  EXPECT_EQ(size->file_count, 121477u);
}

TEST(DataSize, OneFileMayBeEnough) {
  const auto size = required_data_size(workload_of(1000, 1'000'000'000, 1), {1, 1, kGib});
  EXPECT_EQ(size->file_count, 1u);
}

TEST(DataSize, RefusesAWorkloadWithoutADataset) {
  Workload workload = workload_of(65536, 1, 1);
  workload.name = "llama3_8b";
  workload.workflow = {.train = false, .checkpoint = true};
  const auto size = required_data_size(workload, {8, 1, kGib});
  ASSERT_FALSE(size.ok());
  EXPECT_THAT(size.error().message(), testing::HasSubstr("llama3_8b has no dataset"));
  workload.workflow = {.generate_data = true, .train = false};
  EXPECT_TRUE(required_data_size(workload, {8, 1, kGib}).ok());
}

TEST(DataSize, RefusesWhatCannotBe) {
  EXPECT_FALSE(required_data_size(Workload{}, {0, 1, kGib}).ok());
  EXPECT_FALSE(required_data_size(Workload{}, {1, 0, kGib}).ok());
  EXPECT_FALSE(required_data_size(Workload{}, {1, 1, 0}).ok());
  EXPECT_FALSE(required_data_size(Workload{}, {uint64_t{1} << 60, 1, kGib}).ok());
}

}  // namespace
}  // namespace millrace::bench
