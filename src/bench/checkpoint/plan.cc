#include "bench/checkpoint/plan.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "bench/checkpoint/tensor_bundle.h"

namespace millrace::bench {
namespace {

using data::ElementType;

// A model beyond this is a mistake, and its sums could wrap around.
constexpr double kSizeBytesMax = 0x1p60;
// DLIO sizes the small parameters of each optimizer state as this many times the hidden size.
constexpr uint64_t kSmallGroup = 5;
constexpr uint64_t kVariableBytes = sizeof(float);

ElementType element_type(TensorType type) {
  switch (type) {
    case TensorType::kFp16:
      return ElementType::kF16;
    case TensorType::kBf16:
      return ElementType::kBf16;
    case TensorType::kFp32:
      return ElementType::kF32;
    case TensorType::kFp64:
      return ElementType::kF64;
    case TensorType::kInt8:
      return ElementType::kI8;
    case TensorType::kUint8:
      return ElementType::kU8;
    case TensorType::kInt32:
      return ElementType::kI32;
  }
  return ElementType::kF16;
}

void add_tensor(PlannedFile& file, PlannedTensor tensor) {
  if (tensor.count == 0) return;
  file.size_bytes += tensor.size_bytes();
  file.tensors.push_back(std::move(tensor));
}

void add_file(std::vector<PlannedFile>& files, PlannedFile file) {
  if (!file.tensors.empty()) files.push_back(std::move(file));
}

double as_double(uint64_t value) { return static_cast<double>(value); }

}  // namespace

CheckpointPlan::CheckpointPlan(const ModelConfig& model, const CheckpointConfig& checkpoint,
                               uint64_t rank_count)
    : model_(model),
      shape_(model.transformer.value_or(Transformer{})),
      checkpoint_(checkpoint),
      rank_count_(rank_count),
      model_type_(element_type(model.model_datatype)),
      optimizer_type_(element_type(model.optimizer_datatype)) {}

Result<CheckpointPlan> CheckpointPlan::make(const ModelConfig& model,
                                            const CheckpointConfig& checkpoint,
                                            uint64_t rank_count) {
  CheckpointPlan plan(model, checkpoint, rank_count);
  const Parallelism& parallelism = model.parallelism;
  plan.model_ranks_ = parallelism.tensor * parallelism.pipeline;
  RETURN_IF_ERROR(plan.check_ranks());
  plan.data_ranks_ = parallelism.data > 0 ? parallelism.data : plan.rank_count_ / plan.model_ranks_;
  plan.job_rank_count_ = plan.model_ranks_ * plan.data_ranks_;
  RETURN_IF_ERROR(plan.check_model());
  RETURN_IF_ERROR(plan.check_sizes());
  if (checkpoint.layout == CheckpointLayout::kTensorflow)
    plan.variable_count_ = plan.count_variables();
  return plan;
}

Status CheckpointPlan::check_ranks() const {
  constexpr uint64_t kRanksMax = uint64_t{1} << 20;
  const Parallelism& parallelism = model_.parallelism;
  if (parallelism.tensor == 0 || parallelism.pipeline == 0 || parallelism.tensor > kRanksMax ||
      parallelism.pipeline > kRanksMax || parallelism.data > kRanksMax || rank_count_ == 0) {
    return fail(Errc::kInvalidArgument,
                "model.parallelism: tensor {}, pipeline {} and data {} with {} ranks; each must be "
                "from 1 to {}",
                parallelism.tensor, parallelism.pipeline, parallelism.data, rank_count_, kRanksMax);
  }
  if (checkpoint_.mode == CheckpointMode::kSubset) {
    const uint64_t whole = model_ranks_ * parallelism.data;
    if (rank_count_ <= whole) return {};
    return fail(Errc::kInvalidArgument,
                "checkpoint.mode: a subset of {} ranks is larger than the job of {} ranks (tensor "
                "{} x pipeline {} x data {}); start fewer ranks",
                rank_count_, whole, parallelism.tensor, parallelism.pipeline, parallelism.data);
  }
  const uint64_t step = model_ranks_ * std::max<uint64_t>(parallelism.data, 1);
  if (parallelism.data > 0 ? rank_count_ == step : rank_count_ % step == 0) return {};
  return fail(Errc::kInvalidArgument,
              "model.parallelism: {} ranks are not {}{} (tensor {} x pipeline {}{}); start that "
              "many, or set checkpoint.mode: subset and model.parallelism.data",
              rank_count_, parallelism.data > 0 ? "" : "a multiple of ", step, parallelism.tensor,
              parallelism.pipeline,
              parallelism.data > 0 ? fmt::format(" x data {}", parallelism.data) : "");
}

Status CheckpointPlan::check_model() const {
  if (model_.num_layers == 0) return {};
  if (shape_.num_attention_heads == 0 || shape_.hidden_size < shape_.num_attention_heads) {
    return fail(Errc::kInvalidArgument,
                "model.transformer: a hidden size of {} cannot be divided among {} attention heads",
                shape_.hidden_size, shape_.num_attention_heads);
  }
  return {};
}

// An upper bound in floating point, which cannot wrap around.
Status CheckpointPlan::check_sizes() const {
  constexpr uint64_t kLayersMax = uint64_t{1} << 24;
  const double hidden = as_double(shape_.hidden_size);
  double parameters = as_double(model_.model_size_bytes);
  for (const uint64_t group : model_.optimization_groups) parameters += 3 * as_double(group);
  double layer = 0;
  for (const uint64_t count : model_.layer_parameters) layer += as_double(count);
  layer += hidden * (4 * hidden + 2 * as_double(shape_.num_kv_heads) * hidden +
                     3 * as_double(shape_.ffn_hidden_size) + 2);
  parameters += layer * as_double(model_.num_layers) + 2 * hidden * as_double(shape_.vocab_size);
  for (const uint64_t size_bytes : checkpoint_.file_sizes) parameters += as_double(size_bytes);
  if (file_size_at(2) > kSaverGraphBytesMax) {
    return fail(Errc::kInvalidArgument,
                "checkpoint.file_sizes: the third, of .meta, is {} bytes, but TensorFlow's largest "
                "graph has {}",
                file_size_at(2), kSaverGraphBytesMax);
  }
  if (parameters * 32 * as_double(job_rank_count_) < kSizeBytesMax * as_double(model_ranks_) &&
      model_.num_layers <= kLayersMax) {
    return {};
  }
  return fail(Errc::kInvalidArgument,
              "model: {} layers with about {:.3g} parameters are too many to plan a checkpoint; "
              "check num_layers, layer_parameters, optimization_groups and transformer",
              model_.num_layers, parameters);
}

uint64_t CheckpointPlan::parameter_count() const {
  if (model_.num_layers == 0) return 0;
  const uint64_t hidden = shape_.hidden_size;
  const uint64_t key_value = hidden / shape_.num_attention_heads * shape_.num_kv_heads;
  const uint64_t embedding = shape_.vocab_size * hidden;
  const uint64_t layer = 2 * hidden + hidden * (hidden + 2 * key_value) + hidden * hidden +
                         3 * shape_.ffn_hidden_size * hidden;
  return 2 * embedding + layer * model_.num_layers + hidden;
}

CheckpointPlan::Place CheckpointPlan::place_of(uint64_t rank) const {
  return {.rank = rank,
          .model = rank % model_ranks_,
          .pipeline = rank / model_.parallelism.tensor % model_.parallelism.pipeline,
          .data = rank / model_ranks_};
}

// Without ZeRO all replicas hold the same, so only the first is written unless all are asked for.
bool CheckpointPlan::writes(const Place& place) const {
  return model_.parallelism.zero_stage > 0 || place.data == 0 ||
         checkpoint_.type == CheckpointType::kAllRanks;
}

// Layer 0 is the embedding; layers num_layers + 1 and + 2 are the head and the last norm. Layers
// whose sizes are listed have no such companions.
CheckpointPlan::Layers CheckpointPlan::layers_of(const Place& place) const {
  const uint64_t stages = model_.parallelism.pipeline;
  const uint64_t each = model_.num_layers / stages;
  const uint64_t longer = model_.num_layers % stages;  // the first stages have one more
  const uint64_t before = place.pipeline * each + std::min(place.pipeline, longer);
  Layers layers{.first = before + 1, .last = before + each + (place.pipeline < longer ? 1 : 0)};
  if (!model_.layer_parameters.empty()) return layers;
  if (place.pipeline == 0) layers.first = 0;
  if (place.pipeline + 1 == stages) layers.last = model_.num_layers + 2;
  return layers;
}

// The parameters of the tensors of a layer that one rank holds.
std::vector<uint64_t> CheckpointPlan::layer_counts(uint64_t layer) const {
  const uint64_t tensor = model_.parallelism.tensor;
  if (!model_.layer_parameters.empty()) {
    std::vector<uint64_t> counts = model_.layer_parameters;
    for (uint64_t& count : counts) count /= tensor;
    return counts;
  }
  const uint64_t shards = model_.parallelism.zero_stage < 3 ? 1 : data_ranks_;
  const uint64_t hidden = shape_.hidden_size;
  const auto split = [&](uint64_t count) { return count / tensor / shards; };
  if (layer == 0 || layer == model_.num_layers + 1) return {split(hidden * shape_.vocab_size)};
  if (layer == model_.num_layers + 2) return {hidden / shards};
  const uint64_t key_value = hidden / shape_.num_attention_heads * shape_.num_kv_heads;
  return {hidden / shards,                           // input norm
          split(hidden * (hidden + 2 * key_value)),  // attention: query, key, value
          split(hidden * hidden),                    // attention: output
          hidden / shards,                           // norm
          split(2 * hidden * shape_.ffn_hidden_size),
          split(hidden * shape_.ffn_hidden_size)};
}

void CheckpointPlan::add_layer(uint64_t layer, const std::string& group, PlannedFile& file) const {
  // DLIO makes tensors of bytes if the sizes are listed.
  const ElementType type = model_.layer_parameters.empty() ? model_type_ : ElementType::kI8;
  const std::vector<uint64_t> counts = layer_counts(layer);
  for (size_t i = 0; i < counts.size(); ++i) {
    add_tensor(file, {.group = group, .name = std::to_string(i), .type = type, .count = counts[i]});
  }
}

void CheckpointPlan::add_model_files(const Place& place, std::vector<PlannedFile>& files) const {
  if (model_.type == "transformer") return;
  PlannedFile file{.name = fmt::format("model_states-{}.pt", place.rank)};
  add_tensor(file, {.name = "a", .type = ElementType::kI8, .count = model_.model_size_bytes});
  add_file(files, std::move(file));
}

void CheckpointPlan::add_layer_files(const Place& place, std::vector<PlannedFile>& files) const {
  if (model_.num_layers == 0) return;
  const uint32_t stage = model_.parallelism.zero_stage;
  const Layers layers = layers_of(place);
  const bool is_replicated = stage == 1 || stage == 2;
  if (is_replicated && place.data != 0) return;
  if (is_replicated && model_.parallelism.pipeline > 1) {
    for (uint64_t layer = layers.first; layer <= layers.last; ++layer) {
      PlannedFile file{.name =
                           fmt::format("layer_{}-model_{}_model_states.pt", layer, place.model)};
      add_layer(layer, {}, file);
      add_file(files, std::move(file));
    }
    return;
  }
  PlannedFile file{.name = is_replicated ? fmt::format("model_{}_model_states.pt", place.model)
                                         : fmt::format("zero_pp_rank_{}_mp_rank_{}_model_states.pt",
                                                       place.data, place.model)};
  for (uint64_t layer = layers.first; layer <= layers.last; ++layer) {
    add_layer(layer, std::to_string(layer), file);
  }
  add_file(files, std::move(file));
}

void CheckpointPlan::add_optimizer_file(const Place& place, std::vector<PlannedFile>& files) const {
  PlannedFile file{
      .name = fmt::format("zero_pp_rank_{}_mp_rank_{}_optim_states.pt", place.data, place.model)};
  uint64_t combined = 0;
  for (size_t i = 0; i < model_.optimization_groups.size(); ++i) {
    const uint64_t count = model_.optimization_groups[i];
    for (const char* name : {"a", "b"}) {
      add_tensor(
          file,
          {.group = std::to_string(i), .name = name, .type = ElementType::kI8, .count = count});
    }
    combined += count;
  }
  add_tensor(file, {.name = "combined", .type = ElementType::kI8, .count = combined});
  const bool is_computed = model_.optimization_groups.empty() && model_.num_layers > 0;
  const uint64_t holders = model_.parallelism.zero_stage > 0 ? job_rank_count_ : model_ranks_;
  const uint64_t mine = is_computed ? parameter_count() / holders : 0;
  for (uint64_t i = 0; mine > 0 && i < 3; ++i) {  // master weights, momentum, variance
    add_tensor(file, {.name = std::to_string(2 * i), .type = optimizer_type_, .count = mine});
    add_tensor(file, {.name = std::to_string(2 * i + 1),
                      .type = optimizer_type_,
                      .count = kSmallGroup * shape_.hidden_size});
  }
  add_file(files, std::move(file));
}

std::vector<PlannedFile> CheckpointPlan::torch_files(const Place& place) const {
  std::vector<PlannedFile> files;
  if (!writes(place)) return files;
  add_model_files(place, files);
  add_layer_files(place, files);
  add_optimizer_file(place, files);
  return files;
}

// ---- layout tensorflow ----

// checkpoint.file_sizes: `checkpoint`, .data, .meta, .index. 0: what it needs.
uint64_t CheckpointPlan::file_size_at(size_t i) const {
  return i < checkpoint_.file_sizes.size() ? checkpoint_.file_sizes[i] : 0;
}

uint64_t CheckpointPlan::shard_count() const {
  const bool is_sharded =
      checkpoint_.type == CheckpointType::kAllRanks || model_.parallelism.zero_stage > 0;
  return is_sharded ? job_rank_count_ : model_ranks_;
}

// If only the sizes of the files are known: the variables per .data file with which the .index
// comes closest to its size.
uint64_t CheckpointPlan::count_variables() const {
  constexpr uint64_t kVariablesMax = 50'000;
  const uint64_t shards = shard_count();
  const uint64_t index_bytes = file_size_at(3);
  const auto fits = [&](uint64_t count) {
    std::vector<PlannedFile> all;
    for (uint64_t i = 0; i < shards; ++i) all.push_back(tensorflow_data(i, count, {}));
    return bundle_index(bundle_tensors(all), shards, 0).size_bytes() <= index_bytes;
  };
  uint64_t most = std::min({file_size_at(1) / kVariableBytes, kVariablesMax / shards, index_bytes});
  uint64_t least = 1;
  while (least < most) {
    const uint64_t middle = least + (most - least + 1) / 2;
    if (fits(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

// The tensors of a rank, in the order of their names, as TensorFlow writes them.
PlannedFile CheckpointPlan::tensorflow_data(uint64_t shard, uint64_t variable_count,
                                            const std::string& prefix) const {
  const uint64_t shards = shard_count();
  PlannedFile data{.name = fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, shards),
                   .kind = PlannedFile::Kind::kRaw};
  const uint64_t data_bytes = file_size_at(1);
  if (data_bytes == 0) {
    for (const PlannedFile& file : torch_files(place_of(shard))) {
      const std::string scope = file.name.substr(0, file.name.rfind('.')) + '/';
      for (PlannedTensor tensor : file.tensors) {
        tensor.name = scope + (tensor.group.empty() ? "" : tensor.group + '/') + tensor.name;
        tensor.group.clear();
        add_tensor(data, std::move(tensor));
      }
    }
    std::ranges::sort(data.tensors, {}, &PlannedTensor::name);
    return data;
  }
  const std::string scope = shards > 1 ? fmt::format("shard_{:05}/", shard) : "";
  const uint64_t elements = data_bytes / kVariableBytes;
  add_tensor(
      data,
      {.name = scope + "rest", .type = ElementType::kU8, .count = data_bytes % kVariableBytes});
  for (uint64_t i = 0; i < variable_count; ++i) {
    const uint64_t longer = i < elements % variable_count ? 1 : 0;
    add_tensor(data, {.name = fmt::format("{}variable_{:05}", scope, i),
                      .type = ElementType::kF32,
                      .count = elements / variable_count + longer});
  }
  return data;
}

// The data of a rank is one file. The first rank also writes .meta, .index and `checkpoint`.
std::vector<PlannedFile> CheckpointPlan::tensorflow_files(const Place& place,
                                                          uint64_t total_step) const {
  const uint64_t shards = shard_count();
  const std::string prefix = fmt::format("model.ckpt-{}", total_step);
  std::vector<PlannedFile> files;
  if (place.rank < shards) {
    add_file(files, tensorflow_data(place.rank, variable_count_, prefix));
  }
  if (place.rank != 0) return files;
  std::vector<PlannedFile> all;
  for (uint64_t shard = 0; shard < shards; ++shard) {
    all.push_back(tensorflow_data(shard, variable_count_, prefix));
  }
  files.push_back({.name = prefix + ".meta",
                   .kind = PlannedFile::Kind::kGraph,
                   .size_bytes = file_size_at(2),
                   .shards = all});
  files.push_back({.name = prefix + ".index",
                   .kind = PlannedFile::Kind::kIndex,
                   .size_bytes = file_size_at(3),
                   .shards = std::move(all)});
  files.push_back({.name = "checkpoint",
                   .kind = PlannedFile::Kind::kState,
                   .size_bytes = file_size_at(0),
                   .prefix = prefix});
  return files;
}

std::vector<PlannedFile> CheckpointPlan::files_of(uint64_t rank, uint64_t total_step) const {
  assert(rank < job_rank_count_);
  const Place place = place_of(rank);
  if (checkpoint_.layout == CheckpointLayout::kTensorflow)
    return tensorflow_files(place, total_step);
  return torch_files(place);
}

std::vector<BundleTensor> bundle_tensors(std::span<const PlannedFile> shards,
                                         const TensorChecksum& checksum) {
  std::vector<BundleTensor> tensors;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    uint64_t offset_bytes = 0;
    for (size_t i = 0; i < shards[shard].tensors.size(); ++i) {
      const PlannedTensor& tensor = shards[shard].tensors[i];
      tensors.push_back({.key = tensor.name,
                         .type = tensor.type,
                         .count = tensor.count,
                         .shard = shard,
                         .offset_bytes = offset_bytes,
                         .crc32c = checksum ? checksum(shards[shard], i) : 0});
      offset_bytes += tensor.size_bytes();
    }
  }
  std::ranges::sort(tensors, {}, &BundleTensor::key);
  return tensors;
}

}  // namespace millrace::bench
