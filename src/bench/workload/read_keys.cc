#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/text/fields.h"
#include "base/text/spelling.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "bench/workload/keys.h"
#include "bench/workload/tree.h"

namespace millrace::bench {
namespace {

using Kind = Node::Kind;
using Notation = Key::Notation;

struct IgnoredKey {
  std::string_view name;
  std::string_view why;
};

constexpr std::string_view kPlugin = "code of your own cannot be loaded; the built-in is used";

constexpr IgnoredKey kIgnoredKeys[] = {
    {"model.model_size",
     "DLIO does not read it either; model_size_bytes sets the checkpoint's size"},
    {"checkpoint.model_size", "model.model_size_bytes sets the checkpoint's size"},
    {"workflow.debug", "DLIO does not read it either"},
    {"dataset.eval_num_samples_per_file", "files for training and evaluation have as many samples"},
    {"dataset.parquet.generation_batch_size", "rows are made page by page"},
    {"dataset.parquet.use_s3dlio_gen", "rows are made page by page"},
    {"dataset.record_element_bytes", "record_element_type says how large an element is"},
    {"evaluation.steps_between_evals", "epochs_between_evals says when to evaluate"},
    {"train.total_eval_steps", "an evaluation reads all of its files"},
    {"reader.dont_use_mmap", "no reader maps files"},
    {"reader.multiprocessing_context", "the readers are threads"},
    {"reader.reader_classname", kPlugin},
    {"reader.data_loader_classname", kPlugin},
    {"reader.data_loader_sampler", kPlugin},
    {"checkpoint.checkpoint_mechanism_classname", kPlugin},
    {"checkpoint.ksm", "checkpoints are written from a small buffer, so pages need not be merged"},
    {"storage.storage_options", "a file system has no options"},
    {"profiling", "use `millrace trace` for a profile"},
};

// Keys that DLIO's files have, with a value that nothing here can act on.
struct IdleValue {
  std::string_view name;
  std::string_view value;
  std::string_view why;
};

constexpr IdleValue kIdleValues[] = {
    {"reader.pin_memory", "true", "there is no accelerator to copy to, so nothing is pinned"},
    {"workflow.profiling", "true", "use `millrace trace` for a profile"},
    {"dataset.parquet.read_mode", "file", "row groups are read, as DLIO does in all its modes"},
};

// Names that keys had in DLIO 2.0 and in the first versions of MLPerf Storage.
struct OldName {
  std::string_view old_name;
  std::string_view name;
};

constexpr OldName kOldNames[] = {
    {"dataset.record_length", "dataset.record_length_bytes"},
    {"dataset.record_length_stdev", "dataset.record_length_bytes_stdev"},
    {"dataset.record_length_resize", "dataset.record_length_bytes_resize"},
    {"workflow.do_eval", "workflow.evaluation"},
    {"checkpoint.optimization_groups", "model.optimization_groups"},
    {"checkpoint.num_layers", "model.num_layers"},
    {"checkpoint.layer_parameters", "model.layer_parameters"},
};

// Words of DLIO that mean the same as one of ours.
struct Alias {
  std::string_view key;
  std::string_view from;
  std::string_view to;
};

constexpr Alias kAliases[] = {
    {"dataset.format", "hdf5_opt", "hdf5"},
    {"dataset.parquet.read_mode", "default", "row_group"},
    {"reader.data_loader", "native_dali", "dali"},
    {"reader.file_access", "collective", "shared"},
    {"storage.storage_type", "parallel_fs", "local_fs"},
};

class KeyReader {
 public:
  explicit KeyReader(const Document& document) : document_(document) {}

  Result<Workload> read() && {
    ASSIGN_OR_RETURN(const Fields root, Fields::of(document_, document_.root));
    sections_.emplace("", root);
    workload_.model.transformer.emplace();
    for (const Key& key : keys()) RETURN_IF_ERROR(read_key(key, key.name));
    for (const OldName& old : kOldNames) RETURN_IF_ERROR(read_old_name(old));
    for (const IgnoredKey& key : kIgnoredKeys) RETURN_IF_ERROR(skip(key));
    find_idle_values();
    take_framework();
    for (const auto& [name, fields] : sections_) RETURN_IF_ERROR(fields.finish());
    if (find_at(document_.root, path_of("model.transformer")) == nullptr) {
      workload_.model.transformer.reset();
    }
    return std::move(workload_);
  }

 private:
  // "a.b.c" is the key c of the section a.b.
  static std::pair<std::string, std::string> split(std::string_view name) {
    const size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return {"", std::string(name)};
    return {std::string(name.substr(0, dot)), std::string(name.substr(dot + 1))};
  }

  Result<Fields*> section(const std::string& name) {
    const auto found = sections_.find(name);
    if (found != sections_.end()) return &found->second;
    const auto [outer_name, leaf] = split(name);
    ASSIGN_OR_RETURN(Fields* const outer, section(outer_name));
    ASSIGN_OR_RETURN(const Fields inner, outer->section(leaf));
    return &sections_.emplace(name, inner).first->second;
  }

  // `name`: of the key in the file.
  Status read_key(const Key& key, std::string_view name) {
    const auto [section_name, leaf] = split(name);
    ASSIGN_OR_RETURN(Fields* const fields, section(section_name));
    return key.visit_in(workload_, [&, &leaf_name = leaf](auto&& value) {
      return read_value(*fields, leaf_name, key, value);
    });
  }

  // The present name wins.
  Status read_old_name(const OldName& old) {
    const auto [section_name, leaf] = split(old.old_name);
    ASSIGN_OR_RETURN(Fields* const fields, section(section_name));
    const Node* const node = fields->find(leaf);
    if (node == nullptr) return {};
    if (find_at(document_.root, path_of(old.name)) != nullptr) {
      warn(*node, fmt::format("{} is ignored: {} is set", old.old_name, old.name));
      return {};
    }
    warn(*node, fmt::format("{} is {} now", old.old_name, old.name));
    for (const Key& key : keys()) {
      if (key.name == old.name) return read_key(key, old.old_name);
    }
    return {};
  }

  Status skip(const IgnoredKey& key) {
    const auto [section_name, leaf] = split(key.name);
    ASSIGN_OR_RETURN(Fields* const fields, section(section_name));
    const Node* const node = fields->find(leaf);
    if (node != nullptr) warn(*node, fmt::format("{} is ignored: {}", key.name, key.why));
    return {};
  }

  void find_idle_values() {
    for (const Key& key : keys()) {
      for (const IdleValue& idle : kIdleValues) {
        if (key.name != idle.name || value_text(key, workload_) != idle.value) continue;
        const Node* const node = find_at(document_.root, path_of(key.name));
        if (node == nullptr) continue;
        warn(*node, fmt::format("{}={} has no effect here: {}", key.name, idle.value, idle.why));
      }
    }
  }

  // A framework brings its loader and its checkpoints, unless the file says otherwise.
  void take_framework() {
    const auto has = [&](std::string_view name) {
      return find_at(document_.root, path_of(name)) != nullptr;
    };
    if (!has("framework")) return;
    if (!has("reader.data_loader")) workload_.reader.data_loader = loader_of(workload_.framework);
    if (!has("checkpoint.layout") && workload_.framework == Framework::kTensorflow) {
      workload_.checkpoint.layout = CheckpointLayout::kTensorflow;
    }
  }

  void warn(const Node& node, std::string_view message) {
    workload_.warnings.push_back(fmt::format("{}: {}", document_.place_of(node.line()), message));
  }

  static Status read_value(Fields& fields, const std::string& leaf, const Key&, bool& out) {
    return fields.read(leaf, out);
  }

  static Status read_value(Fields& fields, const std::string& leaf, const Key&, int64_t& out) {
    RETURN_IF_ERROR(fields.read(leaf, out));
    if (out >= -1) return {};
    return fields.complain(leaf, fmt::format("{} is negative; -1 means none", out));
  }

  static Status read_value(Fields& fields, const std::string& leaf, const Key&, uint32_t& out) {
    uint64_t number = out;
    RETURN_IF_ERROR(fields.read(leaf, number));
    if (number > 1'000'000) return fields.complain(leaf, fmt::format("{} is too many", number));
    out = static_cast<uint32_t>(number);
    return {};
  }

  static Status read_value(Fields& fields, const std::string& leaf, const Key& key, uint64_t& out) {
    if (key.notation == Notation::kBytes) return fields.read_bytes(leaf, out);
    if (key.notation != Notation::kLimit) return fields.read(leaf, out);
    auto number = static_cast<int64_t>(out);
    RETURN_IF_ERROR(fields.read(leaf, number));
    if (number < -1) {
      return fields.complain(leaf, fmt::format("{} is negative; -1 means none", number));
    }
    out = static_cast<uint64_t>(std::max<int64_t>(number, 0));
    return {};
  }

  static Status read_value(Fields& fields, const std::string& leaf, const Key& key, double& out) {
    const Node* const node = fields.find(leaf);
    const bool is_size =
        node != nullptr && key.notation == Notation::kBytes && !node->as_double().ok();
    if (is_size) {
      uint64_t size_bytes = 0;
      RETURN_IF_ERROR(fields.read_bytes(leaf, size_bytes));
      out = static_cast<double>(size_bytes);
      return {};
    }
    RETURN_IF_ERROR(fields.read(leaf, out));
    if (key.notation == Notation::kLimit && out == -1) out = 0;
    if (std::isfinite(out) && out >= 0) return {};
    return fields.complain(leaf, fmt::format("{} is not a number from 0 on", out));
  }

  static Status read_value(Fields& fields, const std::string& leaf, const Key&, std::string& out) {
    return fields.read(leaf, out);
  }

  Status read_value(Fields& fields, const std::string& leaf, const Key& key, ChoiceValue out) {
    const Node* const node = fields.find(leaf);
    if (node == nullptr) return {};
    // An unquoted `off` is false for YAML 1.1, and some tools write it back as such.
    const Result<bool> is_on = node->as_bool();
    if (out.words[0] == "off" && is_on.ok() && !*is_on) {
      *out.value = 0;
      return {};
    }
    std::string word;
    RETURN_IF_ERROR(fields.read(leaf, word));
    for (const Alias& alias : kAliases) {
      if (alias.key != key.name || alias.from != word) continue;
      word = alias.to;
      warn(*node, fmt::format("{}: '{}' means '{}' here", key.name, alias.from, alias.to));
    }
    if (key.name == "storage.storage_type" && (word == "s3" || word == "aistore")) {
      return fields.complain(leaf, fmt::format("'{}' is not supported, only file systems are; "
                                               "mount the bucket and set local_fs",
                                               word));
    }
    const auto found = std::ranges::find(out.words, word);
    if (found == out.words.end()) {
      return fields.read_choice(leaf, {out.words.begin(), out.words.end()}, word);  // fails
    }
    *out.value = static_cast<uint8_t>(found - out.words.begin());
    return {};
  }

  static Status read_value(Fields& fields, const std::string& leaf, const Key&,
                           std::vector<uint64_t>& out) {
    return fields.read(leaf, out);
  }

  static Status read_value(Fields& fields, const std::string& leaf, const Key&,
                           data::ElementType& out) {
    std::string word;
    std::vector<std::string> names;
    for (int type = 0; type <= static_cast<int>(data::ElementType::kBool); ++type) {
      names.emplace_back(data::element_name(static_cast<data::ElementType>(type)));
    }
    RETURN_IF_ERROR(fields.read_choice(leaf, names, word));
    const auto found = std::find(names.begin(), names.end(), word);
    if (found != names.end()) out = static_cast<data::ElementType>(found - names.begin());
    return {};
  }

  // A number, or a map of a distribution's parameters; and the key <leaf>_stdev.
  Status read_value(Fields& fields, const std::string& leaf, const Key& key, TimeModel& out) {
    const Node* const node = fields.find(leaf);
    if (node != nullptr && node->kind() == Kind::kMap) {
      ASSIGN_OR_RETURN(Fields inner, fields.section(leaf));
      RETURN_IF_ERROR(read_distribution(inner, out));
    } else {
      RETURN_IF_ERROR(read_value(fields, leaf, key, out.first));
    }
    const bool may_vary =
        out.kind == TimeModel::Kind::kConstant || out.kind == TimeModel::Kind::kNormal;
    const std::string stdev_leaf = leaf + "_stdev";
    if (!fields.has(stdev_leaf)) return {};
    if (!may_vary) {
      return fields.complain(stdev_leaf, fmt::format("{} is not a normal distribution", leaf));
    }
    RETURN_IF_ERROR(read_value(fields, stdev_leaf, key, out.second));
    out.kind = out.second > 0 ? TimeModel::Kind::kNormal : TimeModel::Kind::kConstant;
    return {};
  }

  static Status read_parameter(Fields& fields, std::string_view leaf, double& out) {
    RETURN_IF_ERROR(fields.require(leaf, out));
    if (std::isfinite(out) && out >= 0 && out <= kTimeMax) return {};
    return fields.complain(leaf, fmt::format("{} is not a number from 0 to {}", out, kTimeMax));
  }

  // A later file may have changed the type, so parameters of the other types do not matter.
  static Status read_distribution(Fields& fields, TimeModel& out) {
    std::vector<std::string> names;
    for (const Distribution& each : kDistributions) names.emplace_back(each.name);
    std::string type = fields.has("stdev") ? "normal" : "constant";
    RETURN_IF_ERROR(fields.read_choice("type", names, type));
    for (const Distribution& each : kDistributions) {
      fields.find(each.first);
      if (!each.second.empty()) fields.find(each.second);
      if (each.name != type) continue;
      out = {.kind = each.kind, .first = 0, .second = 0};
      RETURN_IF_ERROR(read_parameter(fields, each.first, out.first));
      if (!each.second.empty()) RETURN_IF_ERROR(read_parameter(fields, each.second, out.second));
      if (each.kind == TimeModel::Kind::kUniform && out.second < out.first) {
        return fields.complain("max",
                               fmt::format("{} is less than min, {}", out.second, out.first));
      }
    }
    return fields.finish();
  }

  // Calls read(fields of the item, item) for each map of a list.
  template <typename T, typename Read>
  Status read_list(Fields& fields, const std::string& leaf, const Key& key, std::vector<T>& out,
                   Read read) {
    const Node* const node = fields.find(leaf);
    if (node == nullptr) return {};
    if (node->kind() != Kind::kList) {
      return fields.complain(leaf, fmt::format("expected a list, found {}", describe(*node)));
    }
    out.clear();
    for (const Node& item : node->items()) {
      ASSIGN_OR_RETURN(Fields inner,
                       Fields::of(document_, item, fmt::format("{}[{}]", key.name, out.size())));
      T value;
      RETURN_IF_ERROR(inner.require("name", value.name));
      RETURN_IF_ERROR(read(inner, value));
      RETURN_IF_ERROR(inner.finish());
      const bool is_new = std::none_of(out.begin(), out.end(),
                                       [&](const T& other) { return other.name == value.name; });
      if (!is_new) return inner.complain("name", "another item has the same name");
      out.push_back(std::move(value));
    }
    return {};
  }

  Status read_value(Fields& fields, const std::string& leaf, const Key& key,
                    std::vector<Column>& out) {
    return read_list(fields, leaf, key, out, [](Fields& inner, Column& column) -> Status {
      RETURN_IF_ERROR(inner.read("dtype", column.dtype));
      RETURN_IF_ERROR(inner.read("size", column.size));
      RETURN_IF_ERROR(inner.read("read", column.is_read));
      if (column.size == 0) return inner.complain("size", "a column has at least 1 element");
      return {};
    });
  }

  Status read_value(Fields& fields, const std::string& leaf, const Key& key,
                    std::vector<ExtraField>& out) {
    return read_list(fields, leaf, key, out, [&](Fields& inner, ExtraField& field) -> Status {
      RETURN_IF_ERROR(inner.read("dims", field.dims));
      RETURN_IF_ERROR(read_value(inner, "type", key, field.type));
      return data::Shape::make(field.dims).ok()
                 ? Status()
                 : inner.complain("dims", "this is not a shape that fits into memory");
    });
  }

  static constexpr double kTimeMax = 1e6;  // seconds

  const Document& document_;
  std::map<std::string, Fields> sections_;
  Workload workload_;
};

}  // namespace

Result<Workload> read_keys(const Document& document) { return KeyReader(document).read(); }

}  // namespace millrace::bench
