#include "bench/workload/scale.h"

#include <algorithm>
#include <cmath>

#include "bench/workload/check.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kBatchCountMin = 16;  // of an epoch: a few steps for each of several ranks
constexpr uint64_t kStepCountMin = 4;
constexpr uint64_t kFileCountMin = 8;
constexpr double kSmallDatasetBytes = 0x1p30;
constexpr double kRecordMinBytes = 64;
constexpr double kRounding = 1.01;  // what whole files may add to the scaled dataset
constexpr uint64_t kModelSizeMinBytes = 1024;

// At least `floor`, but never more than before.
uint64_t scaled(uint64_t value, double scale, uint64_t floor = 1) {
  const double product = std::round(static_cast<double>(value) * scale);
  if (product >= 0x1p63) return value;
  return std::min(value, std::max(static_cast<uint64_t>(product), floor));
}

uint64_t divide_up(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

void scale_folders(uint64_t& folders, uint64_t files, uint64_t files_before) {
  if (folders == 0 || files_before == 0) return;
  const double share = static_cast<double>(files) / static_cast<double>(files_before);
  folders = scaled(folders, share);
}

// Shrinks the slow axes first, so that the fast ones keep their length.
void scale_dims(std::vector<uint64_t>& dims, double share) {
  for (uint64_t& length : dims) {
    const uint64_t before = length;
    length = scaled(length, share);
    share *= static_cast<double>(before) / static_cast<double>(length);
  }
}

void scale_records(DatasetConfig& dataset, double share) {
  share = std::max(share, kRecordMinBytes / dataset.record_length_bytes);
  if (share >= 1 / kRounding) return;
  dataset.record_length_bytes *= share;
  dataset.record_length_bytes_stdev *= share;
  for (Column& column : dataset.columns) column.size = scaled(column.size, share);
  for (ExtraField& field : dataset.fields) scale_dims(field.dims, share);
  if (dataset.record_dims.empty()) return;
  scale_dims(dataset.record_dims, share);
  // Several datasets share the first axis evenly.
  dataset.num_dset_per_record = std::min(dataset.num_dset_per_record, dataset.record_dims[0]);
  dataset.record_dims[0] -= dataset.record_dims[0] % dataset.num_dset_per_record;
  const size_t extra =
      dataset.chunk_dims.size() - std::min(dataset.chunk_dims.size(), dataset.record_dims.size());
  for (size_t axis = extra; axis < dataset.chunk_dims.size(); ++axis) {
    dataset.chunk_dims[axis] =
        std::min(dataset.chunk_dims[axis], dataset.record_dims[axis - extra]);
  }
}

void scale_dataset(Workload& workload, double scale) {
  DatasetConfig& dataset = workload.dataset;
  const uint64_t samples_before = train_sample_count(workload);
  const uint64_t files_before = dataset.num_files_train;
  const uint64_t eval_files_before = dataset.num_files_eval;
  if (samples_before == 0) return;
  const uint64_t samples =
      scaled(samples_before, scale, workload.reader.batch_size * kBatchCountMin);
  if (dataset.num_samples_per_file == 1) {
    dataset.num_files_train = samples;
  } else {
    dataset.num_files_train = scaled(files_before, scale, kFileCountMin);
    dataset.num_samples_per_file =
        std::min(dataset.num_samples_per_file, divide_up(samples, dataset.num_files_train));
  }
  const uint64_t eval_files_min =
      divide_up(workload.reader.batch_size_eval, dataset.num_samples_per_file);
  dataset.num_files_eval = scaled(eval_files_before, scale, eval_files_min);
  // Files with fewer samples: more of them may be needed for one batch.
  if (eval_files_before > 0)
    dataset.num_files_eval = std::max(dataset.num_files_eval, eval_files_min);
  scale_folders(dataset.num_subfolders_train, dataset.num_files_train, files_before);
  scale_folders(dataset.num_subfolders_eval, dataset.num_files_eval, eval_files_before);
  dataset.row_group_size = std::min(dataset.row_group_size, dataset.num_samples_per_file);
  const double bytes_before = static_cast<double>(samples_before) * dataset.record_length_bytes;
  const double bytes =
      static_cast<double>(train_sample_count(workload)) * dataset.record_length_bytes;
  scale_records(dataset, std::max(bytes_before * scale, kSmallDatasetBytes) / bytes);
  take_length_of_dims(workload);
}

uint64_t to_multiple(double value, uint64_t of) {
  const auto times = static_cast<uint64_t>(std::llround(value / static_cast<double>(of)));
  return std::max<uint64_t>(times, 1) * of;
}

void scale_transformer(Transformer& transformer, const Parallelism& parallelism, double scale) {
  const double root = std::sqrt(scale);
  const auto width = [&](uint64_t& value, uint64_t multiple) {
    value = std::min(value, to_multiple(static_cast<double>(value) * root, multiple));
  };
  // Heads and tensor parallelism divide the widths as before.
  const uint64_t heads = transformer.num_attention_heads;
  width(transformer.hidden_size, transformer.hidden_size % heads == 0 ? heads : 1);
  width(transformer.ffn_hidden_size, parallelism.tensor);
  width(transformer.vocab_size, parallelism.tensor);
}

void scale_model(ModelConfig& model, double scale) {
  model.model_size_bytes = scaled(model.model_size_bytes, scale, kModelSizeMinBytes);
  for (uint64_t& group : model.optimization_groups) group = scaled(group, scale);
  for (uint64_t& parameters : model.layer_parameters) parameters = scaled(parameters, scale);
  if (model.transformer) scale_transformer(*model.transformer, model.parallelism, scale);
}

}  // namespace

Status scale(Workload& workload, double scale) {
  if (!(scale > 0 && scale <= 1)) {
    return fail(Errc::kInvalidArgument, "the scale {} is not above 0 and at most 1", scale);
  }
  if (scale == 1) return {};
  scale_dataset(workload, scale);
  scale_model(workload.model, scale);
  workload.train.total_training_steps =
      scaled(workload.train.total_training_steps, scale, kStepCountMin);
  CheckpointConfig& checkpoint = workload.checkpoint;
  checkpoint.steps_between_checkpoints = scaled(checkpoint.steps_between_checkpoints, scale);
  checkpoint.time_between_checkpoints_s *= scale;
  for (uint64_t& size : checkpoint.file_sizes) size = scaled(size, scale);
  return check(workload);
}

}  // namespace millrace::bench
