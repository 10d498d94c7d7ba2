// CheckpointPlan: which files each rank writes in a checkpoint, and which tensors are in them.
//
// A pure function of the model, the checkpoint's keys and the number of ranks, so that the shard of
// any rank of a huge job can be computed on one machine. Names, tensors and sizes are those of DLIO
// (layout torch), or the files of TensorFlow's Saver (layout tensorflow).
// docs/design/bench-checkpoints.md explains the rules.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/checkpoint/tensor_bundle.h"
#include "bench/workload/workload.h"
#include "data/array.h"

namespace millrace::bench {

// An entry of a state dict: state[group][name], or state[name] if there is no group.
struct PlannedTensor {
  std::string group = {};
  std::string name;
  data::ElementType type = data::ElementType::kI8;
  uint64_t count = 0;  // elements

  uint64_t size_bytes() const { return count * data::element_bytes(type); }
};

struct PlannedFile {
  enum class Kind : uint8_t {
    kTorch,  // a zip file that torch.load reads
    kRaw,    // nothing but the bytes of its tensors: TensorFlow's .data
    kIndex,  // TensorFlow's .index: where the tensors of `shards` are
    kGraph,  // TensorFlow's .meta: a graph with the tensors of `shards`
    kState,  // TensorFlow's text file `checkpoint`
  };

  std::string name;  // in the folder of the checkpoint
  Kind kind = Kind::kTorch;
  std::vector<PlannedTensor> tensors = {};
  // Of the tensors, or the size that a file without tensors should have. The file is larger if it
  // needs more.
  uint64_t size_bytes = 0;
  std::vector<PlannedFile> shards = {};  // kIndex, kGraph: the files that have the tensors
  std::string prefix = {};               // kState: the checkpoint that it names
};

class CheckpointPlan {
 public:
  // Checks what depends on the ranks or on sums; contradictions between keys were found before
  // (check.h). `rank_count` is the number of ranks that run. In mode `subset` they are the first
  // ranks of a larger job, whose size follows from the parallelism; in mode `default` they are the
  // whole job.
  static Result<CheckpointPlan> make(const ModelConfig& model, const CheckpointConfig& checkpoint,
                                     uint64_t rank_count);

  // The files of a rank of the job, which may have no files. `total_step` is part of the names of
  // layout tensorflow. REQUIRES: rank < job_rank_count().
  std::vector<PlannedFile> files_of(uint64_t rank, uint64_t total_step = 0) const;

  // By the transformer's shape, as in DLIO also if layer_parameters are listed; 0 without layers.
  uint64_t parameter_count() const;

  uint64_t job_rank_count() const { return job_rank_count_; }  // of the job that is modelled

 private:
  // The place of a rank in the job.
  struct Place {
    uint64_t rank;
    uint64_t model;     // within the tensor and pipeline parallel ranks
    uint64_t pipeline;  // the stage
    uint64_t data;      // the replica
  };
  struct Layers {
    uint64_t first;
    uint64_t last;
  };

  CheckpointPlan(const ModelConfig& model, const CheckpointConfig& checkpoint, uint64_t rank_count);

  Status check_ranks() const;
  Status check_model() const;
  Status check_sizes() const;
  Place place_of(uint64_t rank) const;
  bool writes(const Place& place) const;
  Layers layers_of(const Place& place) const;
  std::vector<uint64_t> layer_counts(uint64_t layer) const;
  void add_layer(uint64_t layer, const std::string& group, PlannedFile& file) const;
  void add_model_files(const Place& place, std::vector<PlannedFile>& files) const;
  void add_layer_files(const Place& place, std::vector<PlannedFile>& files) const;
  void add_optimizer_file(const Place& place, std::vector<PlannedFile>& files) const;
  std::vector<PlannedFile> torch_files(const Place& place) const;
  uint64_t file_size_at(size_t i) const;
  uint64_t shard_count() const;
  uint64_t count_variables() const;
  PlannedFile tensorflow_data(uint64_t shard, uint64_t variable_count,
                              const std::string& prefix) const;
  std::vector<PlannedFile> tensorflow_files(const Place& place, uint64_t total_step) const;

  ModelConfig model_;
  Transformer shape_;
  CheckpointConfig checkpoint_;
  uint64_t rank_count_ = 0;
  uint64_t model_ranks_ = 1;  // tensor x pipeline
  uint64_t data_ranks_ = 1;
  uint64_t job_rank_count_ = 1;
  uint64_t variable_count_ = 0;  // layout tensorflow with file_sizes: per .data file
  data::ElementType model_type_;
  data::ElementType optimizer_type_;
};

// The CRC-32C of a tensor of a file.
using TensorChecksum = std::function<uint32_t(const PlannedFile& file, size_t tensor)>;

// What TensorFlow's .index and .meta say about the tensors of all .data files, sorted by key. The
// checksums are 0 without a function.
std::vector<BundleTensor> bundle_tensors(std::span<const PlannedFile> shards,
                                         const TensorChecksum& checksum = {});

}  // namespace millrace::bench
