// Sheet: a workload while it is filled in. Every value is set together with its reason.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/workload/workload.h"
#include "model/model.h"

namespace millrace::model {

class Sheet {
 public:
  // Sets a value of `workload` and notes the key that it has in the file. The name of the key must
  // be that of `place`.
  template <typename Place, typename Value>
  void set(std::string_view key, Place& place, const Value& value, std::string why) {
    place = value;
    note(key, text_of(place), std::move(why), false);
  }
  // The same for a value that the trace does not show.
  template <typename Place, typename Value>
  void assume(std::string_view key, Place& place, const Value& value, std::string why) {
    place = value;
    note(key, text_of(place), std::move(why), true);
  }

  void assumption(std::string sentence) { modelled_.assumptions.push_back(std::move(sentence)); }
  void missing(std::string sentence) { modelled_.missing.push_back(std::move(sentence)); }

  bench::Workload& workload() { return modelled_.workload; }
  void set_ranks(uint64_t ranks) { modelled_.ranks = ranks; }

  Modelled take() { return std::move(modelled_); }

 private:
  void note(std::string_view key, std::string value, std::string why, bool assumed);

  static std::string text_of(bool value);
  static std::string text_of(uint64_t value);
  static std::string text_of(double value);
  static std::string text_of(const std::string& value);
  static std::string text_of(bench::Shuffle value);
  template <bench::Choice Enum>
  static std::string text_of(Enum value) {
    return std::string(name_of(value));
  }
  static std::string text_of(const bench::TimeModel& value);
  static std::string text_of(const std::vector<uint64_t>& value);

  Modelled modelled_;
};

}  // namespace millrace::model
