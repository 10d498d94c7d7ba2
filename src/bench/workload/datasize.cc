#include "bench/workload/datasize.h"

#include <algorithm>
#include <cmath>

namespace millrace::bench {
namespace {

constexpr double kMemoryTimes = 5;
constexpr double kStepCountMin = 500;
constexpr double kCountMax = 0x1p53;

}  // namespace

Result<DataSize> required_data_size(const Workload& workload, const DataSizeQuestion& question) {
  const DatasetConfig& dataset = workload.dataset;
  if (question.accelerator_count == 0) {
    return fail(Errc::kInvalidArgument, "the number of accelerators must be at least 1");
  }
  if (question.host_count == 0 || question.host_memory_bytes == 0) {
    return fail(Errc::kInvalidArgument, "the number of hosts and their memory must be above 0");
  }
  if (!workload.workflow.train && !workload.workflow.generate_data) {
    return fail(Errc::kInvalidArgument,
                "{} has no dataset: it only writes and reads checkpoints, whose sizes follow from "
                "the model and the number of ranks",
                workload.name.empty() ? "the workload" : workload.name);
  }
  const auto samples_per_file = static_cast<double>(dataset.num_samples_per_file);
  const double file_bytes = samples_per_file * dataset.record_length_bytes;
  const double memory_bytes =
      static_cast<double>(question.host_count) * static_cast<double>(question.host_memory_bytes);
  const double sample_count = kStepCountMin * static_cast<double>(question.accelerator_count) *
                              static_cast<double>(workload.reader.batch_size);
  const double by_memory = std::floor(kMemoryTimes * memory_bytes / file_bytes);
  const double by_steps = std::floor(sample_count / samples_per_file);
  // A file may hold more than enough; one is needed.
  const double files = std::max({by_memory, by_steps, 1.0});
  if (files * samples_per_file > kCountMax || files * file_bytes > 0x1p63) {
    return fail(Errc::kInvalidArgument, "the dataset would have more samples than can be counted");
  }
  return DataSize{.file_count = static_cast<uint64_t>(files),
                  .file_count_by_memory = static_cast<uint64_t>(by_memory),
                  .file_count_by_steps = static_cast<uint64_t>(by_steps),
                  .sample_count = static_cast<uint64_t>(files * samples_per_file),
                  .size_bytes = static_cast<uint64_t>(files * file_bytes)};
}

}  // namespace millrace::bench
