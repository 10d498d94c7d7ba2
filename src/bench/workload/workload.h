// Workload: the I/O of a training job, as a YAML file describes it.
//
// The keys are those of DLIO and MLPerf Storage, with their defaults, and a few of ours (marked).
// load_workload() (load.h) makes one from files and overrides and refuses what is unknown or
// contradictory; whoever has a Workload need not check it again. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/workload/format_traits.h"
#include "data/array.h"

namespace millrace::bench {

// A time that may vary from step to step. All in seconds, as in the file.
struct TimeModel {
  enum class Kind : uint8_t { kConstant, kNormal, kUniform, kGamma, kExponential, kPoisson };

  Kind kind = Kind::kConstant;
  // mean; normal: mean, stdev; uniform: min, max; gamma: shape, scale; exponential: scale; poisson:
  // lambda.
  double first = 0;
  double second = 0;

  bool is_zero() const { return first == 0 && second == 0; }
  bool operator==(const TimeModel&) const = default;
};

struct WorkflowConfig {
  bool generate_data = false;
  bool train = true;
  bool evaluation = false;
  bool checkpoint = false;
  bool profiling = false;
};

struct Parallelism {
  uint64_t tensor = 1;
  uint64_t pipeline = 1;
  uint64_t data = 0;  // 0 (-1 in the file): what is left of the ranks
  uint32_t zero_stage = 0;
};

struct Transformer {
  uint64_t vocab_size = 32000;
  uint64_t hidden_size = 2048;
  uint64_t ffn_hidden_size = 8192;
  uint64_t num_attention_heads = 32;
  uint64_t num_kv_heads = 8;
};

struct ModelConfig {
  std::string name;
  std::string type;  // "transformer", or anything else
  uint64_t model_size_bytes = 10240;
  TensorType model_datatype = TensorType::kFp16;
  TensorType optimizer_datatype = TensorType::kFp32;
  std::vector<uint64_t> optimization_groups;  // parameters
  uint64_t num_layers = 0;                    // 0 (-1 in the file): none
  std::vector<uint64_t> layer_parameters;
  Parallelism parallelism;
  std::optional<Transformer> transformer;
};

// A column of a Parquet file.
struct Column {
  std::string name;
  std::string dtype = "float32";  // of numpy, or "string", "binary", "list<float32>"
  uint64_t size = 1;              // elements (or bytes) in a row
  bool is_read = true;
};

// Ours: one dataset of an HDF5 file, or one array of an NPZ file, beside the record.
struct ExtraField {
  std::string name;
  std::vector<uint64_t> dims;  // of one sample
  data::ElementType type = data::ElementType::kF32;
};

struct DatasetConfig {
  double record_length_bytes = 65536;
  double record_length_bytes_stdev = 0;
  uint64_t record_length_bytes_resize = 0;  // 0: the sample keeps its length
  uint64_t num_files_train = 8;
  uint64_t num_files_eval = 0;
  uint64_t num_samples_per_file = 1;
  std::string data_folder = "./data/";
  uint64_t num_subfolders_train = 0;
  uint64_t num_subfolders_eval = 0;
  std::string file_prefix = "img";
  DatasetFormat format = DatasetFormat::kTfrecord;
  Compression compression = Compression::kNone;
  uint32_t compression_level = 4;
  bool enable_chunking = false;
  uint64_t chunk_size = 0;  // bytes; 0: one record
  bool keep_files = true;
  uint64_t generation_buffer_size = uint64_t{2} << 30;
  std::vector<uint64_t> record_dims;  // empty: a square, from record_length_bytes
  data::ElementType record_element_type = data::ElementType::kU8;
  // hdf5:
  std::vector<uint64_t> chunk_dims;
  uint64_t num_dset_per_record = 1;
  std::vector<uint64_t> max_shape;
  // parquet:
  uint64_t row_group_size = 1024;  // rows
  ParquetReads read_mode = ParquetReads::kRowGroup;
  std::vector<Column> columns;
  // Ours:
  ContentKind content = ContentKind::kRandom;
  std::vector<ExtraField> fields;  // beside the record, in every sample
  uint64_t seed = 0;               // of the contents

  const FormatTraits& traits() const { return traits_of(format); }
};

struct ReaderConfig {
  DataLoader data_loader = DataLoader::kNative;
  uint64_t batch_size = 1;
  uint64_t batch_size_eval = 1;
  uint64_t read_threads = 1;
  uint64_t computation_threads = 1;
  uint64_t prefetch_size = 2;  // batches, of each thread as in PyTorch
  Shuffle file_shuffle = Shuffle::kOff;
  Shuffle sample_shuffle = Shuffle::kOff;
  uint64_t shuffle_size = 1024;  // samples in tf.data's buffer
  ReadType read_type = ReadType::kOnDemand;
  FileAccess file_access = FileAccess::kMulti;
  uint64_t transfer_size = 0;  // bytes of a read; 0: one read for a sample
  TimeModel preprocess_time;
  bool pin_memory = true;
  bool odirect = false;
  std::vector<uint64_t> transformed_record_dims;
  data::ElementType transformed_record_element_type = data::ElementType::kU8;
  // Ours:
  bool decode = false;  // decode samples really, instead of waiting preprocess_time
  bool verify = false;  // compare each sample with the checksum of its contents
  OnError on_error = OnError::kFail;

  bool skips_bad_samples() const { return on_error == OnError::kSkip; }
};

struct TrainConfig {
  uint64_t epochs = 1;
  TimeModel computation_time;
  uint64_t total_training_steps = 0;  // of the run; 0 (-1 in the file): no limit
  bool seed_change_epoch = true;
  uint64_t seed = 123;
};

struct EvaluationConfig {
  TimeModel eval_time;
  uint64_t eval_after_epoch = 1;
  uint64_t epochs_between_evals = 1;
};

struct CheckpointConfig {
  std::string checkpoint_folder = "./checkpoints/";
  uint64_t checkpoint_after_epoch = 1;
  uint64_t epochs_between_checkpoints = 1;
  uint64_t steps_between_checkpoints = 0;  // 0 (-1 in the file): not by steps
  double time_between_checkpoints_s = 0;   // 0 (-1 in the file): not by time; else seconds
  CheckpointType type = CheckpointType::kRankZero;
  CheckpointMode mode = CheckpointMode::kDefault;
  bool fsync = false;
  int64_t num_checkpoints_write = -1;  // -1: as scheduled
  int64_t num_checkpoints_read = -1;
  bool recovery_rank_shift = false;
  bool rank_sync = false;
  bool randomize_tensor = true;
  // Ours:
  WriteMode write_mode = WriteMode::kSync;
  std::string local_folder;  // local_flush: written here, then copied to the folder
  CheckpointLayout layout = CheckpointLayout::kTorch;
  std::vector<uint64_t> file_sizes;  // tensorflow: bytes of its files, e.g. 1 KB, 7 MB, 32 MB, 4 KB
  uint64_t buffer_size = uint64_t{16} << 20;  // the memory that a shard is streamed from
  uint64_t keep = 0;        // the newest checkpoints of the run that are kept; 0: all
  bool odirect = false;     // shards are written and read past the page cache
  bool drop_cache = false;  // before a shard is read, its pages are dropped from the page cache
  bool verify = true;       // what is read is compared with what was written
};

struct OutputConfig {
  std::string folder;  // empty: millrace-bench/<name>/<date>
  std::string log_file = "dlio.log";
  uint64_t exclude_start_steps = 1;
  uint64_t exclude_end_steps = 0;
};

struct Workload {
  std::string name;         // of the file, without its extension
  std::string description;  // the comment that opens the file
  Framework framework = Framework::kPytorch;
  WorkflowConfig workflow;
  ModelConfig model;
  Storage storage_type = Storage::kLocalFs;
  std::string storage_root = "./";
  DatasetConfig dataset;
  ReaderConfig reader;
  TrainConfig train;
  EvaluationConfig evaluation;
  CheckpointConfig checkpoint;
  OutputConfig output;
  double metric_au = 0.90;  // the utilisation to reach, 0 to 1
  // What load_workload() ignored or found odd, each with its place. For the user.
  std::vector<std::string> warnings;
};

}  // namespace millrace::bench
