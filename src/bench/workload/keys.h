// Keys: every key of a workload file, with the value that it sets and what it means.
//
// One table serves reading, writing (load.h), `bench keys` and the guide, so they cannot disagree:
// a test compares docs/guide/bench.md with it, row by row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/text/document.h"
#include "bench/workload/workload.h"
#include "data/array.h"

namespace millrace::bench {

// A value that is one of a few words.
struct ChoiceValue {
  uint8_t* value = nullptr;  // an enum; its words are in the order of its values
  std::span<const std::string_view> words;

  std::string_view word() const { return words[*value]; }
};

template <Choice Enum>
ChoiceValue choice(Enum& value) {
  return {.value = reinterpret_cast<uint8_t*>(&value), .words = kWords<Enum>};
}

// The parameters of a TimeModel.
struct Distribution {
  std::string_view name;
  TimeModel::Kind kind;
  std::string_view first;
  std::string_view second;  // empty: there is one
};

inline constexpr Distribution kDistributions[] = {
    {"normal", TimeModel::Kind::kNormal, "mean", "stdev"},
    {"uniform", TimeModel::Kind::kUniform, "min", "max"},
    {"gamma", TimeModel::Kind::kGamma, "shape", "scale"},
    {"exponential", TimeModel::Kind::kExponential, "scale", ""},
    {"poisson", TimeModel::Kind::kPoisson, "lam", ""},
    {"constant", TimeModel::Kind::kConstant, "mean", ""}};

inline const Distribution& distribution_of(const TimeModel& time) {
  return *std::ranges::find(kDistributions, time.kind, &Distribution::kind);
}

struct Key {
  // Where the value is in a Workload. Those of model.transformer require that it exists.
  using At =
      std::variant<bool* (*)(Workload&), uint32_t* (*)(Workload&), uint64_t* (*)(Workload&),
                   int64_t* (*)(Workload&), double* (*)(Workload&), std::string* (*)(Workload&),
                   std::vector<uint64_t>* (*)(Workload&), TimeModel* (*)(Workload&),
                   data::ElementType* (*)(Workload&), std::vector<Column>* (*)(Workload&),
                   std::vector<ExtraField>* (*)(Workload&), ChoiceValue (*)(Workload&)>;

  enum class Notation : uint8_t {
    kPlain,
    kBytes,  // a number, or "64KiB"
    kLimit,  // -1 in the file is 0 here: no limit, none
  };

  std::string_view name;  // "train.epochs"
  At at;
  std::string_view meaning;
  Notation notation = Notation::kPlain;

  // Calls visit(value), with a reference to the value or a ChoiceValue.
  template <typename Visit>
  auto visit_in(Workload& workload, Visit&& visit) const {
    return std::visit(
        [&](auto place) {
          if constexpr (std::is_same_v<decltype(place(workload)), ChoiceValue>) {
            return visit(place(workload));
          } else {
            return visit(*place(workload));
          }
        },
        at);
  }
};

// Those of a section follow each other, and its own sections follow its keys.
std::span<const Key> keys();

// For people: "5", "off", "{type: normal, mean: 1, stdev: 0.1}". It is valid YAML on one line.
std::string value_text(const Key& key, const Workload& workload);

// The value without workload files: "1". For keys that have no value then, "".
std::string default_text(const Key& key);

// The words of a choice; none for other keys.
std::span<const std::string_view> choice_words(const Key& key);

// A Workload with the default of every key, for comparisons; its transformer exists.
Workload default_workload();

// Fills a Workload from a document, which must be composed (compose.h). Every key must be known.
// Keys that other tools' files have, but that mean nothing here, become a warning that says so.
// Does not set the name and the description.
Result<Workload> read_keys(const Document& document);

}  // namespace millrace::bench
