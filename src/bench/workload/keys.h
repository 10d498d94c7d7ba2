// Keys: every key of a workload file, with the value that it sets.
//
// One table serves reading (load.h), writing (workload_yaml.h) and `millrace bench --keys`, so the
// three cannot disagree. A test compares it with the table of docs/guide/bench.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bench/workload/workload.h"
#include "data/array.h"

namespace millrace::bench {

struct Key {
  // Where the value is in a Workload. Those of model.transformer require that it exists.
  using At =
      std::variant<bool* (*)(Workload&), uint32_t* (*)(Workload&), uint64_t* (*)(Workload&),
                   int64_t* (*)(Workload&), double* (*)(Workload&), std::string* (*)(Workload&),
                   std::vector<uint64_t>* (*)(Workload&), TimeModel* (*)(Workload&),
                   Shuffle* (*)(Workload&), data::ElementType* (*)(Workload&),
                   std::vector<Column>* (*)(Workload&), std::vector<ExtraField>* (*)(Workload&)>;

  enum class Notation : uint8_t {
    kPlain,
    kBytes,  // a number, or "64KiB"
    kLimit,  // -1 in the file is 0 here: no limit, none
  };

  std::string_view name;  // "train.epochs"
  At at;
  std::string_view meaning;
  Notation notation = Notation::kPlain;
  std::string_view choices = {};  // the words that it may be, separated by spaces; empty: any
};

// Those of a section follow each other, and its own sections follow its keys.
std::span<const Key> keys();

// For people: "5", "off", "{type: normal, mean: 1, stdev: 0.1}". It is valid YAML on one line.
std::string value_text(const Key& key, const Workload& workload);

// The value without workload files: "1". For keys that have no value then, "".
std::string default_text(const Key& key);

// A Workload with the default of every key, for comparisons; its transformer exists.
Workload default_workload();

std::vector<std::string> words(std::string_view text);  // split at spaces

std::string_view shuffle_name(Shuffle shuffle);

}  // namespace millrace::bench
