#include "bench/workload/check.h"

#include <algorithm>
#include <utility>

#include "base/text/units.h"
#include "data/array.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kSampleCountMax = uint64_t{1} << 50;
constexpr double kSizeMaxBytes = 0x1p60;
constexpr uint64_t kDirectBlockBytes = 512;

class Finder {
 public:
  explicit Finder(const Workload& workload) : workload_(workload) {}

  std::vector<Contradiction> find() && {
    find_in_model();
    find_in_storage();
    find_in_dataset();
    find_in_hdf5();
    find_in_parquet();
    find_in_reader();
    find_in_training();
    find_in_checkpoint();
    find_without_effect();
    return std::move(found_);
  }

 private:
  template <typename... Values>
  void error(std::string_view key, fmt::format_string<Values...> format, Values&&... values) {
    found_.push_back({key, fmt::format(format, std::forward<Values>(values)...), true});
  }
  template <typename... Values>
  void warning(std::string_view key, fmt::format_string<Values...> format, Values&&... values) {
    found_.push_back({key, fmt::format(format, std::forward<Values>(values)...), false});
  }
  void at_least_1(std::string_view key, uint64_t value) {
    if (value == 0) error(key, "it must be at least 1");
  }

  bool has_layers() const {
    return workload_.model.num_layers > 0 &&
           (workload_.model.transformer || !workload_.model.layer_parameters.empty());
  }

  void find_in_model() {
    const ModelConfig& model = workload_.model;
    const Parallelism& parallelism = model.parallelism;
    at_least_1("model.parallelism.tensor", parallelism.tensor);
    at_least_1("model.parallelism.pipeline", parallelism.pipeline);
    if (parallelism.zero_stage > 3) {
      error("model.parallelism.zero_stage", "{} is not one of 0, 1, 2, 3", parallelism.zero_stage);
    }
    if (parallelism.zero_stage == 3 && parallelism.pipeline > 1) {
      error("model.parallelism.zero_stage", "stage 3 excludes a pipeline; set pipeline: 1");
    }
    if (model.num_layers > 0 && model.num_layers < parallelism.pipeline) {
      error("model.num_layers", "{} layers cannot be shared by a pipeline of {} ranks",
            model.num_layers, parallelism.pipeline);
    }
    if (!model.layer_parameters.empty() && model.num_layers == 0) {
      error("model.layer_parameters", "it has no effect without model.num_layers");
    }
    if (model.transformer) find_in_transformer(*model.transformer);
    if (model.type == "transformer" && !model.transformer && model.num_layers > 0) {
      warning("model.type", "the section model.transformer is missing; its defaults are not used");
    }
  }

  void find_in_transformer(const Transformer& transformer) {
    at_least_1("model.transformer.vocab_size", transformer.vocab_size);
    at_least_1("model.transformer.hidden_size", transformer.hidden_size);
    at_least_1("model.transformer.ffn_hidden_size", transformer.ffn_hidden_size);
    at_least_1("model.transformer.num_attention_heads", transformer.num_attention_heads);
    at_least_1("model.transformer.num_kv_heads", transformer.num_kv_heads);
    const uint64_t heads = transformer.num_attention_heads;
    if (heads > 0 && transformer.num_kv_heads > heads) {
      error("model.transformer.num_kv_heads", "{} is more than num_attention_heads, {}",
            transformer.num_kv_heads, heads);
    }
    constexpr uint64_t kWidthMax = uint64_t{1} << 28;
    for (const uint64_t width : {transformer.vocab_size, transformer.hidden_size,
                                 transformer.ffn_hidden_size, transformer.num_attention_heads}) {
      if (width > kWidthMax) {
        error("model.transformer", "{} is more than any model has", width);
      }
    }
  }

  void find_in_storage() {
    // A workload may be from a stranger, and the log is appended to.
    const std::string& log = workload_.output.log_file;
    if (log.find('/') != std::string::npos || log == "." || log == "..") {
      error("output.log_file", "it is the name of a file in output.folder, without '/'");
    }
    for (const auto& [key, folder] :
         {std::pair{"dataset.data_folder", workload_.dataset.data_folder},
          std::pair{"checkpoint.checkpoint_folder", workload_.checkpoint.checkpoint_folder},
          std::pair{"storage.storage_root", workload_.storage_root}}) {
      if (folder.find("://") != std::string::npos) {
        error(key, "object stores are not supported; mount the bucket and name a folder");
      }
      if (folder.empty()) error(key, "the folder is missing; the current one is '.'");
    }
  }

  void find_in_dataset() {
    const DatasetConfig& dataset = workload_.dataset;
    at_least_1("dataset.num_samples_per_file", dataset.num_samples_per_file);
    const bool uses_data = workload_.workflow.train || workload_.workflow.generate_data;
    if (uses_data) at_least_1("dataset.num_files_train", dataset.num_files_train);
    const uint64_t files = std::max(dataset.num_files_train, dataset.num_files_eval);
    if (dataset.num_samples_per_file > 0 &&
        files > kSampleCountMax / dataset.num_samples_per_file) {
      error("dataset.num_samples_per_file", "the dataset has more samples than can be counted");
    }
    if (dataset.record_length_bytes < 1 || dataset.record_length_bytes > kSizeMaxBytes) {
      error("dataset.record_length_bytes", "{} is not the size of a sample",
            dataset.record_length_bytes);
    }
    if (dataset.record_length_bytes_stdev > kSizeMaxBytes) {
      error("dataset.record_length_bytes_stdev", "it is more than any sample has");
    }
    if (dataset.compression_level > 9) {
      error("dataset.compression_level", "{} is not from 0 to 9", dataset.compression_level);
    }
    find_in_folders("dataset.num_subfolders_train", dataset.num_subfolders_train,
                    dataset.num_files_train);
    find_in_folders("dataset.num_subfolders_eval", dataset.num_subfolders_eval,
                    dataset.num_files_eval);
    if (dataset.file_prefix.find('/') != std::string::npos) {
      error("dataset.file_prefix", "a prefix of file names cannot contain '/'");
    }
    constexpr uint64_t kBufferMinBytes = 4096;
    if (dataset.generation_buffer_size < kBufferMinBytes) {
      error("dataset.generation_buffer_size", "{} is less than 4 KiB",
            dataset.generation_buffer_size);
    }
    find_in_dims();
  }

  void find_in_folders(std::string_view key, uint64_t folders, uint64_t files) {
    if (folders > files && folders > 1 && files > 0) {
      warning(key, "{} folders for {} files: some stay empty", folders, files);
    }
  }

  void find_in_dims() {
    const DatasetConfig& dataset = workload_.dataset;
    if (dataset.traits().is_image && dataset.record_element_type != data::ElementType::kU8) {
      error("dataset.record_element_type", "{} needs uint8", name_of(dataset.format));
    }
    if (dataset.record_dims.empty()) return;
    if (!data::Shape::make(dataset.record_dims).ok()) {
      error("dataset.record_dims", "this is not a shape that fits into memory");
    }
    for (const uint64_t length : dataset.record_dims) at_least_1("dataset.record_dims", length);
    if (dataset.record_length_bytes_stdev > 0) {
      error("dataset.record_length_bytes_stdev",
            "samples with record_dims have one size; leave one of the two out");
    }
  }

  void find_in_hdf5() {
    const DatasetConfig& dataset = workload_.dataset;
    const size_t rank = dataset.record_dims.size();
    const bool has_hdf5 = !dataset.chunk_dims.empty() || !dataset.max_shape.empty() ||
                          dataset.num_dset_per_record != 1 || dataset.enable_chunking;
    if (has_hdf5 && dataset.format != DatasetFormat::kHdf5) {
      warning("dataset.hdf5", "it has no effect on the format {}", name_of(dataset.format));
      return;
    }
    for (const auto& [key, dims] : {std::pair{"dataset.hdf5.chunk_dims", dataset.chunk_dims},
                                    std::pair{"dataset.hdf5.max_shape", dataset.max_shape}}) {
      // The dataset may have one axis more than a sample: that of the samples.
      const bool fits = dims.empty() || rank == 0 || dims.size() == rank || dims.size() == rank + 1;
      if (!fits) {
        error(key, "it has {} dimensions, but record_dims has {}", dims.size(), rank);
      }
      for (const uint64_t length : dims) at_least_1(key, length);
    }
    find_in_max_shape();
    at_least_1("dataset.hdf5.num_dset_per_record", dataset.num_dset_per_record);
    if (rank > 0 && dataset.num_dset_per_record > 0 &&
        dataset.record_dims[0] % dataset.num_dset_per_record != 0) {
      error("dataset.hdf5.num_dset_per_record", "{} does not divide {}, the first of record_dims",
            dataset.num_dset_per_record, dataset.record_dims[0]);
    }
  }

  void find_in_max_shape() {
    const DatasetConfig& dataset = workload_.dataset;
    std::vector<uint64_t> lengths = dataset.record_dims;
    if (dataset.max_shape.size() > lengths.size()) {
      lengths.insert(lengths.begin(), dataset.num_samples_per_file);
    }
    if (dataset.record_dims.empty() || lengths.size() != dataset.max_shape.size()) return;
    for (size_t axis = 0; axis < lengths.size(); ++axis) {
      if (dataset.max_shape[axis] >= lengths[axis]) continue;
      error("dataset.hdf5.max_shape", "{} is less than the {} of the dataset",
            dataset.max_shape[axis], lengths[axis]);
    }
  }

  void find_in_parquet() {
    const DatasetConfig& dataset = workload_.dataset;
    at_least_1("dataset.parquet.row_group_size", dataset.row_group_size);
    if (!dataset.columns.empty() && dataset.format != DatasetFormat::kParquet) {
      warning("dataset.parquet.columns", "they have no effect on the format {}",
              name_of(dataset.format));
    }
    const bool is_read =
        dataset.columns.empty() || std::any_of(dataset.columns.begin(), dataset.columns.end(),
                                               [](const Column& column) { return column.is_read; });
    if (!is_read) error("dataset.parquet.columns", "none of the columns is read");
  }

  void find_in_reader() {
    const ReaderConfig& reader = workload_.reader;
    at_least_1("reader.batch_size", reader.batch_size);
    at_least_1("reader.batch_size_eval", reader.batch_size_eval);
    if (reader.odirect && reader.transfer_size % kDirectBlockBytes != 0) {
      error("reader.transfer_size", "{} is not a multiple of {}, as odirect requires",
            reader.transfer_size, kDirectBlockBytes);
    }
    if (!data::Shape::make(reader.transformed_record_dims).ok()) {
      error("reader.transformed_record_dims", "this is not a shape that fits into memory");
    }
    constexpr uint64_t kThreadsMax = 4096;
    if (reader.read_threads > kThreadsMax) {
      error("reader.read_threads", "{} is more than {}", reader.read_threads, kThreadsMax);
    }
    if (reader.decode && !reader.preprocess_time.is_zero()) {
      warning("reader.preprocess_time", "it has no effect, because reader.decode is true");
    }
  }

  // Keys of DLIO that only some loaders, formats or workflows can act on.
  void find_without_effect() {
    const ReaderConfig& reader = workload_.reader;
    const bool streams = reader.data_loader == DataLoader::kTensorflow;
    if (reader.shuffle_size != ReaderConfig().shuffle_size && !streams) {
      no_effect("reader.shuffle_size", "the loader {} shuffles all samples",
                name_of(reader.data_loader));
    }
    if (reader.computation_threads > 1 && !streams) {
      no_effect("reader.computation_threads",
                "the threads of the loader {} that read also preprocess",
                name_of(reader.data_loader));
    }
    if (reader.transformed_record_dims.empty() &&
        reader.transformed_record_element_type != data::ElementType::kU8) {
      no_effect("reader.transformed_record_element_type", "transformed_record_dims is not set");
    }
    const DatasetConfig& dataset = workload_.dataset;
    if (!reader.transformed_record_dims.empty() && dataset.record_length_bytes_resize > 0) {
      no_effect("dataset.record_length_bytes_resize", "reader.transformed_record_dims is set");
    }
    if (!dataset.keep_files && !workload_.workflow.train) {
      no_effect("dataset.keep_files", "only a run that trains deletes its dataset");
    }
  }

  template <typename... Values>
  void no_effect(std::string_view key, fmt::format_string<Values...> why, Values&&... values) {
    warning(key, "it has no effect here: {}", fmt::format(why, std::forward<Values>(values)...));
  }

  void find_in_training() {
    const uint64_t samples = train_sample_count(workload_);
    if (workload_.workflow.train) {
      at_least_1("train.epochs", workload_.train.epochs);
      if (samples > 0 && workload_.reader.batch_size > samples) {
        error("reader.batch_size",
              "a batch of {} is more than the {} samples of the "
              "dataset; raise num_files_train",
              workload_.reader.batch_size, samples);
      }
    }
    if (workload_.metric_au > 1) {
      error("metric.au", "{} is not from 0 to 1", workload_.metric_au);
    }
    if (!workload_.workflow.evaluation) return;
    const EvaluationConfig& evaluation = workload_.evaluation;
    at_least_1("evaluation.epochs_between_evals", evaluation.epochs_between_evals);
    const uint64_t eval_samples = eval_sample_count(workload_);
    if (eval_samples == 0) {
      error("workflow.evaluation", "there are no files to evaluate; set dataset.num_files_eval");
    } else if (workload_.reader.batch_size_eval > eval_samples) {
      error("reader.batch_size_eval", "a batch of {} is more than the {} samples to evaluate",
            workload_.reader.batch_size_eval, eval_samples);
    }
  }

  void find_in_checkpoint() {
    const CheckpointConfig& checkpoint = workload_.checkpoint;
    find_in_layout();
    if (!workload_.workflow.checkpoint) return;
    at_least_1("checkpoint.epochs_between_checkpoints", checkpoint.epochs_between_checkpoints);
    const uint64_t steps = workload_.train.total_training_steps;
    if (steps > 0 && checkpoint.steps_between_checkpoints > steps) {
      warning("checkpoint.steps_between_checkpoints",
              "no checkpoint is written: the run has {} steps", steps);
    }
    if (checkpoint.num_checkpoints_write >= 0 &&
        checkpoint.num_checkpoints_read > checkpoint.num_checkpoints_write &&
        checkpoint.num_checkpoints_write > 0) {
      error("checkpoint.num_checkpoints_read", "{} is more than num_checkpoints_write, {}",
            checkpoint.num_checkpoints_read, checkpoint.num_checkpoints_write);
    }
    if (checkpoint.mode == CheckpointMode::kSubset) find_in_subset();
  }

  void find_in_subset() {
    if (!has_layers()) {
      error("checkpoint.mode",
            "a subset needs a model with layers: model.num_layers, and model.transformer or "
            "model.layer_parameters");
    }
    if (workload_.model.parallelism.data == 0) {
      error("checkpoint.mode",
            "a subset needs the size of the whole job: set model.parallelism.data");
    }
  }

  void find_in_layout() {
    const CheckpointConfig& checkpoint = workload_.checkpoint;
    if (checkpoint.buffer_size < 4096) {
      error("checkpoint.buffer_size", "{} is less than 4 KiB", checkpoint.buffer_size);
    }
    if (checkpoint.write_mode == WriteMode::kLocalFlush && checkpoint.local_folder.empty()) {
      error("checkpoint.write_mode", "local_flush needs checkpoint.local_folder");
    }
    if (!checkpoint.file_sizes.empty() && checkpoint.layout != CheckpointLayout::kTensorflow) {
      error("checkpoint.file_sizes", "it needs `layout: tensorflow`");
    }
  }

  const Workload& workload_;
  std::vector<Contradiction> found_;
};

}  // namespace

std::vector<Contradiction> contradictions(const Workload& workload) {
  return Finder(workload).find();
}

Status check(const Workload& workload) {
  for (const Contradiction& each : contradictions(workload)) {
    if (each.is_error) return fail(Errc::kInvalidArgument, "{}: {}", each.key, each.message);
  }
  return {};
}

std::string take_length_of_dims(Workload& workload) {
  DatasetConfig& dataset = workload.dataset;
  if (dataset.record_dims.empty()) return {};
  auto length = static_cast<double>(data::element_bytes(dataset.record_element_type));
  for (const uint64_t dim : dataset.record_dims) length *= static_cast<double>(dim);
  const double said = std::exchange(dataset.record_length_bytes, length);
  if (said == length) return {};
  return fmt::format("dataset.record_length_bytes: {} is ignored: record_dims is {} bytes", said,
                     length);
}

uint64_t train_sample_count(const Workload& workload) {
  return workload.dataset.num_files_train * workload.dataset.num_samples_per_file;
}

uint64_t eval_sample_count(const Workload& workload) {
  return workload.dataset.num_files_eval * workload.dataset.num_samples_per_file;
}

}  // namespace millrace::bench
