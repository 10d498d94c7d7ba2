#include "bench/workload/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace millrace::bench {
namespace {

using enum Key::Notation;

const Key kKeys[] = {
    {"framework", [](Workload& w) { return choice(w.framework); },
     "Framework of the job. If given, it sets the defaults of `reader.data_loader` and "
     "`checkpoint.layout`."},

    {"workflow.generate_data", [](Workload& w) { return &w.workflow.generate_data; },
     "Generate the dataset before training. With `train: false`, only generate."},
    {"workflow.train", [](Workload& w) { return &w.workflow.train; }, "Train."},
    {"workflow.evaluation", [](Workload& w) { return &w.workflow.evaluation; },
     "Evaluate after epochs, as `evaluation` says."},
    {"workflow.checkpoint", [](Workload& w) { return &w.workflow.checkpoint; },
     "Write checkpoints. With `train: false`, only write and read checkpoints."},
    {"workflow.profiling", [](Workload& w) { return &w.workflow.profiling; },
     "No effect: Millrace traces any run (`millrace trace`). `true` in a file warns."},

    {"model.name", [](Workload& w) { return &w.model.name; }, "For reports and folders."},
    {"model.type", [](Workload& w) { return &w.model.type; },
     "`transformer`: checkpoints have the layers of `model.transformer`."},
    {"model.model_size_bytes", [](Workload& w) { return &w.model.model_size_bytes; },
     "Size of a checkpoint of a model without layers.", kBytes},
    {"model.model_datatype", [](Workload& w) { return choice(w.model.model_datatype); },
     "Type of the parameters in a checkpoint."},
    {"model.optimizer_datatype", [](Workload& w) { return choice(w.model.optimizer_datatype); },
     "Type of the optimizer's state in a checkpoint."},
    {"model.optimization_groups", [](Workload& w) { return &w.model.optimization_groups; },
     "Elements of each group of the optimizer."},
    {"model.num_layers", [](Workload& w) { return &w.model.num_layers; },
     "Layers of the model; -1: none.", kLimit},
    {"model.layer_parameters", [](Workload& w) { return &w.model.layer_parameters; },
     "Parameters of each tensor of a layer."},
    {"model.parallelism.tensor", [](Workload& w) { return &w.model.parallelism.tensor; },
     "Ranks that share the tensors of a layer."},
    {"model.parallelism.pipeline", [](Workload& w) { return &w.model.parallelism.pipeline; },
     "Ranks that share the layers."},
    {"model.parallelism.data", [](Workload& w) { return &w.model.parallelism.data; },
     "Copies of the model; -1: what is left of the ranks.", kLimit},
    {"model.parallelism.zero_stage", [](Workload& w) { return &w.model.parallelism.zero_stage; },
     "What the copies share: 0 nothing, 1 and 2 the optimizer, 3 also the parameters."},
    {"model.transformer.vocab_size", [](Workload& w) { return &w.model.transformer->vocab_size; },
     "Words of the vocabulary."},
    {"model.transformer.hidden_size", [](Workload& w) { return &w.model.transformer->hidden_size; },
     "Width of the model."},
    {"model.transformer.ffn_hidden_size",
     [](Workload& w) { return &w.model.transformer->ffn_hidden_size; },
     "Width of the feed-forward layers."},
    {"model.transformer.num_attention_heads",
     [](Workload& w) { return &w.model.transformer->num_attention_heads; }, "Attention heads."},
    {"model.transformer.num_kv_heads",
     [](Workload& w) { return &w.model.transformer->num_kv_heads; },
     "Heads of the keys and values."},

    {"storage.storage_type", [](Workload& w) { return choice(w.storage_type); },
     "File systems only; object stores are refused."},
    {"storage.storage_root", [](Workload& w) { return &w.storage_root; },
     "The folder that relative folders of the workload start from."},

    {"dataset.record_length_bytes", [](Workload& w) { return &w.dataset.record_length_bytes; },
     "Mean size of a sample.", kBytes},
    {"dataset.record_length_bytes_stdev",
     [](Workload& w) { return &w.dataset.record_length_bytes_stdev; },
     "Standard deviation of that size.", kBytes},
    {"dataset.record_length_bytes_resize",
     [](Workload& w) { return &w.dataset.record_length_bytes_resize; },
     "Size of a sample in a batch; 0: as in the file.", kBytes},
    {"dataset.num_files_train", [](Workload& w) { return &w.dataset.num_files_train; },
     "Files to train from."},
    {"dataset.num_files_eval", [](Workload& w) { return &w.dataset.num_files_eval; },
     "Files to evaluate from."},
    {"dataset.num_samples_per_file", [](Workload& w) { return &w.dataset.num_samples_per_file; },
     "Samples in each file."},
    {"dataset.data_folder", [](Workload& w) { return &w.dataset.data_folder; },
     "Folder of the dataset."},
    {"dataset.num_subfolders_train", [](Workload& w) { return &w.dataset.num_subfolders_train; },
     "Folders that the training files are spread over; 0: none."},
    {"dataset.num_subfolders_eval", [](Workload& w) { return &w.dataset.num_subfolders_eval; },
     "Folders that the evaluation files are spread over; 0: none."},
    {"dataset.file_prefix", [](Workload& w) { return &w.dataset.file_prefix; },
     "How file names begin."},
    {"dataset.format", [](Workload& w) { return choice(w.dataset.format); },
     "Format of the files."},
    {"dataset.compression", [](Workload& w) { return choice(w.dataset.compression); },
     "`gzip`: of tfrecord, csv, tsv, hdf5 and parquet files; `snappy` and `zstd`: of parquet files; "
     "`zip`: of npz files. Others are refused."},
    {"dataset.compression_level", [](Workload& w) { return &w.dataset.compression_level; },
     "How hard gzip and zip try, 1 to 9."},
    {"dataset.enable_chunking", [](Workload& w) { return &w.dataset.enable_chunking; },
     "HDF5: store the dataset in chunks."},
    {"dataset.chunk_size", [](Workload& w) { return &w.dataset.chunk_size; },
     "HDF5: size of a chunk; 0: one sample.", kBytes},
    {"dataset.keep_files", [](Workload& w) { return &w.dataset.keep_files; },
     "False: delete the dataset after training. Only files that Millrace has generated, and that "
     "nobody changed since, are deleted."},
    {"dataset.generation_buffer_size",
     [](Workload& w) { return &w.dataset.generation_buffer_size; },
     "Limit of the buffer that a thread writes files from; more than 256 KiB (HDF5: 1 MiB) is not "
     "used.",
     kBytes},
    {"dataset.record_dims", [](Workload& w) { return &w.dataset.record_dims; },
     "Shape of a sample, instead of `record_length_bytes`; empty: a square of bytes."},
    {"dataset.record_element_type", [](Workload& w) { return &w.dataset.record_element_type; },
     "Type of its elements, as in numpy."},
    {"dataset.content", [](Workload& w) { return choice(w.dataset.content); },
     "Ours. What samples contain: random bytes, what compresses like a photograph or like physics, "
     "words, or zeros."},
    {"dataset.fields", [](Workload& w) { return &w.dataset.fields; },
     "Ours. Arrays beside the record in every sample of an HDF5 or NPZ file: a list of `{name, "
     "dims, type}`."},
    {"dataset.seed", [](Workload& w) { return &w.dataset.seed; }, "Ours. Seed of the contents."},
    {"dataset.hdf5.chunk_dims", [](Workload& w) { return &w.dataset.chunk_dims; },
     "Shape of a chunk of a sample, or of several samples with one axis more in front."},
    {"dataset.hdf5.num_dset_per_record", [](Workload& w) { return &w.dataset.num_dset_per_record; },
     "Datasets that a sample is spread over, along its first axis."},
    {"dataset.hdf5.max_shape", [](Workload& w) { return &w.dataset.max_shape; },
     "Shape to which a sample may grow later, or all samples with one axis more in front; the "
     "dataset has chunks then."},
    {"dataset.parquet.row_group_size", [](Workload& w) { return &w.dataset.row_group_size; },
     "Rows of a row group."},
    {"dataset.parquet.read_mode", [](Workload& w) { return choice(w.dataset.read_mode); },
     "Row groups are read, as DLIO does in all its modes; `file` has no effect and warns."},
    {"dataset.parquet.columns", [](Workload& w) { return &w.dataset.columns; },
     "A list of `{name, dtype, size, read}`: `size` elements of `dtype` in each row."},

    {"reader.data_loader", [](Workload& w) { return choice(w.reader.data_loader); },
     "Which loader's access pattern to reproduce: ours, or a framework's."},
    {"reader.batch_size", [](Workload& w) { return &w.reader.batch_size; },
     "Samples that a rank takes in each step."},
    {"reader.batch_size_eval", [](Workload& w) { return &w.reader.batch_size_eval; },
     "The same, in evaluations."},
    {"reader.read_threads", [](Workload& w) { return &w.reader.read_threads; },
     "Threads (workers) that read for a rank."},
    {"reader.computation_threads", [](Workload& w) { return &w.reader.computation_threads; },
     "With `tensorflow`: threads that preprocess. The other loaders preprocess in the threads that "
     "read."},
    {"reader.prefetch_size", [](Workload& w) { return &w.reader.prefetch_size; },
     "Batches that are read ahead; with `pytorch`, by each thread."},
    {"reader.file_shuffle", [](Workload& w) { return choice(w.reader.file_shuffle); },
     "Order of the files: by name, shuffled by `train.seed`, or different in each run."},
    {"reader.sample_shuffle", [](Workload& w) { return choice(w.reader.sample_shuffle); },
     "Order of the samples, in the same way."},
    {"reader.shuffle_size", [](Workload& w) { return &w.reader.shuffle_size; },
     "With `tensorflow` and a sample shuffle: samples in the buffer that the next one is drawn from. "
     "The other loaders shuffle all samples."},
    {"reader.read_type", [](Workload& w) { return choice(w.reader.read_type); },
     "`memory`: read the whole dataset before the first step."},
    {"reader.file_access", [](Workload& w) { return choice(w.reader.file_access); },
     "With `tensorflow`, `multi`: ranks divide the files; `shared`: each rank reads a part of every "
     "file. The other loaders divide the samples of all files."},
    {"reader.transfer_size", [](Workload& w) { return &w.reader.transfer_size; },
     "Size of a read; 0: the sample's.", kBytes},
    {"reader.preprocess_time", [](Workload& w) { return &w.reader.preprocess_time; },
     "Time to preprocess a sample."},
    {"reader.pin_memory", [](Workload& w) { return &w.reader.pin_memory; },
     "No effect: there is no accelerator to copy to, so nothing is pinned. `true` in a file warns."},
    {"reader.odirect", [](Workload& w) { return &w.reader.odirect; },
     "Read with O_DIRECT, past the page cache. In HDF5, libhdf5 still reads through it where the "
     "samples are."},
    {"reader.transformed_record_dims",
     [](Workload& w) { return &w.reader.transformed_record_dims; },
     "Shape of a sample in a batch, after preprocessing; with `decode`, images get its first two "
     "axes (height, width)."},
    {"reader.transformed_record_element_type",
     [](Workload& w) { return &w.reader.transformed_record_element_type; },
     "Type of its elements."},
    {"reader.decode", [](Workload& w) { return &w.reader.decode; },
     "Ours. Decode images and numbers in text, instead of waiting for `preprocess_time`."},
    {"reader.verify", [](Workload& w) { return &w.reader.verify; },
     "Ours. Compare each sample with its checksum."},
    {"reader.on_error", [](Workload& w) { return choice(w.reader.on_error); },
     "Ours. What to do with a corrupt sample."},

    {"train.epochs", [](Workload& w) { return &w.train.epochs; }, "Passes over the dataset."},
    {"train.computation_time", [](Workload& w) { return &w.train.computation_time; },
     "Time of the accelerator for a batch."},
    {"train.total_training_steps", [](Workload& w) { return &w.train.total_training_steps; },
     "Steps of the run, at most; -1: all.", kLimit},
    {"train.seed_change_epoch", [](Workload& w) { return &w.train.seed_change_epoch; },
     "Shuffle differently in each epoch."},
    {"train.seed", [](Workload& w) { return &w.train.seed; }, "Seed of the shuffles and times."},

    {"evaluation.eval_time", [](Workload& w) { return &w.evaluation.eval_time; },
     "Time of the accelerator for a batch of an evaluation."},
    {"evaluation.eval_after_epoch", [](Workload& w) { return &w.evaluation.eval_after_epoch; },
     "The first epoch that an evaluation follows, from 1."},
    {"evaluation.epochs_between_evals",
     [](Workload& w) { return &w.evaluation.epochs_between_evals; },
     "Epochs from one evaluation to the next."},

    {"checkpoint.checkpoint_folder", [](Workload& w) { return &w.checkpoint.checkpoint_folder; },
     "Folder of the checkpoints."},
    {"checkpoint.checkpoint_after_epoch",
     [](Workload& w) { return &w.checkpoint.checkpoint_after_epoch; },
     "The first epoch that a checkpoint follows, from 1."},
    {"checkpoint.epochs_between_checkpoints",
     [](Workload& w) { return &w.checkpoint.epochs_between_checkpoints; },
     "Epochs from one checkpoint to the next."},
    {"checkpoint.steps_between_checkpoints",
     [](Workload& w) { return &w.checkpoint.steps_between_checkpoints; },
     "Steps from one checkpoint to the next; -1: not by steps.", kLimit},
    {"checkpoint.time_between_checkpoints",
     [](Workload& w) { return &w.checkpoint.time_between_checkpoints_s; },
     "Seconds from one checkpoint to the next; -1: not by time.", kLimit},
    {"checkpoint.type", [](Workload& w) { return choice(w.checkpoint.type); },
     "Who writes a model without layers."},
    {"checkpoint.mode", [](Workload& w) { return choice(w.checkpoint.mode); },
     "`subset`: the ranks write their part of the checkpoint of a larger job."},
    {"checkpoint.fsync", [](Workload& w) { return &w.checkpoint.fsync; },
     "A checkpoint is complete when it is on the device."},
    {"checkpoint.num_checkpoints_write",
     [](Workload& w) { return &w.checkpoint.num_checkpoints_write; },
     "Checkpoints to write; 0: none, those of an earlier run are read; -1: as scheduled."},
    {"checkpoint.num_checkpoints_read",
     [](Workload& w) { return &w.checkpoint.num_checkpoints_read; },
     "Checkpoints to read back: the first ones; -1: none."},
    {"checkpoint.recovery_rank_shift",
     [](Workload& w) { return &w.checkpoint.recovery_rank_shift; },
     "Read back what another node wrote, so that its page cache cannot serve it."},
    {"checkpoint.rank_sync", [](Workload& w) { return &w.checkpoint.rank_sync; },
     "All ranks wait for each other after a checkpoint."},
    {"checkpoint.randomize_tensor", [](Workload& w) { return &w.checkpoint.randomize_tensor; },
     "Random contents; otherwise zeros."},
    {"checkpoint.write_mode", [](Workload& w) { return choice(w.checkpoint.write_mode); },
     "Ours. Wait for a checkpoint, write it while training goes on, or write it to `local_folder` "
     "and copy it later."},
    {"checkpoint.local_folder", [](Workload& w) { return &w.checkpoint.local_folder; },
     "Ours. Folder on the node's own storage."},
    {"checkpoint.layout", [](Workload& w) { return choice(w.checkpoint.layout); },
     "Ours. Shards as DeepSpeed writes them, or the files of TensorFlow, which are the default with "
     "`framework: tensorflow`."},
    {"checkpoint.file_sizes", [](Workload& w) { return &w.checkpoint.file_sizes; },
     "Ours. With `layout: tensorflow`: bytes of each file."},
    {"checkpoint.buffer_size", [](Workload& w) { return &w.checkpoint.buffer_size; },
     "Ours. Memory that a shard is written from.", kBytes},
    {"checkpoint.keep", [](Workload& w) { return &w.checkpoint.keep; },
     "Ours. Checkpoints that remain, the newest; 0: all."},
    {"checkpoint.odirect", [](Workload& w) { return &w.checkpoint.odirect; },
     "Ours. Write and read with O_DIRECT."},
    {"checkpoint.drop_cache", [](Workload& w) { return &w.checkpoint.drop_cache; },
     "Ours. Drop the files from the page cache before they are read back."},
    {"checkpoint.verify", [](Workload& w) { return &w.checkpoint.verify; },
     "Ours. Compare every byte that is read back."},

    {"output.folder", [](Workload& w) { return &w.output.folder; },
     "Folder of the results; empty: `millrace-bench/<name>/<date>`."},
    {"output.log_file", [](Workload& w) { return &w.output.log_file; },
     "Log of the run in the folder of the results: when epochs and checkpoints began and ended; "
     "empty: none."},
    {"output.metric.exclude_start_steps", [](Workload& w) { return &w.output.exclude_start_steps; },
     "First steps of an epoch that do not count."},
    {"output.metric.exclude_end_steps", [](Workload& w) { return &w.output.exclude_end_steps; },
     "Last steps of an epoch that do not count."},

    {"metric.au", [](Workload& w) { return &w.metric_au; },
     "The utilisation that the storage must reach, 0 to 1."},
};

// Whether a string needs no quotes in YAML, even within [] and {}.
bool is_plain(std::string_view text) {
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/' || c == '-' || c == '<' || c == '>';
  };
  if (text.empty() || text == "null" || text == "Null" || text == "NULL" || text == "None") {
    return false;
  }
  if (text[0] == '-' || text[0] == '<' || text[0] == '>') return false;
  return std::all_of(text.begin(), text.end(), is_safe);
}

std::string text_of(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string text_of(const std::string& text) { return text_of(std::string_view(text)); }
template <typename Number>
  requires std::is_arithmetic_v<Number>
std::string text_of(Number value) {
  return fmt::format("{}", value);
}

std::string text_of(ChoiceValue value) { return std::string(value.word()); }
std::string text_of(data::ElementType value) { return std::string(data::element_name(value)); }

std::string text_of(const std::vector<uint64_t>& list) {
  return fmt::format("[{}]", fmt::join(list, ", "));
}

std::string text_of(const TimeModel& time) {
  if (time.kind == TimeModel::Kind::kConstant) return text_of(time.first);
  const Distribution& each = distribution_of(time);
  const std::string second =
      each.second.empty() ? "" : fmt::format(", {}: {}", each.second, time.second);
  return fmt::format("{{type: {}, {}: {}{}}}", each.name, each.first, time.first, second);
}

std::string text_of(const std::vector<Column>& columns) {
  std::vector<std::string> items;
  items.reserve(columns.size());
  for (const Column& column : columns) {
    items.push_back(fmt::format("{{name: {}, dtype: {}, size: {}, read: {}}}", text_of(column.name),
                                text_of(column.dtype), column.size, column.is_read));
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string text_of(const std::vector<ExtraField>& fields) {
  std::vector<std::string> items;
  items.reserve(fields.size());
  for (const ExtraField& field : fields) {
    items.push_back(fmt::format("{{name: {}, dims: {}, type: {}}}", text_of(field.name),
                                text_of(field.dims), text_of(field.type)));
  }
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

std::span<const Key> keys() { return kKeys; }

std::string value_text(const Key& key, const Workload& workload) {
  // `at` is also for writing, so not const.
  auto& place = const_cast<Workload&>(workload);
  std::string text = key.visit_in(place, [](const auto& value) { return text_of(value); });
  if (key.notation == kLimit && text == "0") return "-1";
  return text;
}

std::string default_text(const Key& key) {
  const std::string text = value_text(key, default_workload());
  return text == "\"\"" || text == "[]" ? "" : text;
}

std::span<const std::string_view> choice_words(const Key& key) {
  Workload workload = default_workload();
  return key.visit_in(workload, [](auto&& value) -> std::span<const std::string_view> {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, ChoiceValue>) return value.words;
    return {};
  });
}

Workload default_workload() {
  Workload workload;
  workload.model.transformer.emplace();
  return workload;
}

}  // namespace millrace::bench
