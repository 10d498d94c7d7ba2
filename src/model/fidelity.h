// Fidelity: how far a run of the modelled workload is from the job.
//
// A pure function of two profiles. Everything is compared per step, per call or as a share, so that
// a model that was scaled down can be compared with the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/profile/profile.h"
#include "base/system/terminal.h"
#include "base/text/json_writer.h"

namespace millrace::model {

enum class Unit : uint8_t { kCount, kBytes, kTime, kShare, kText };
inline constexpr std::string_view kUnitNames[] = {"count", "bytes", "ns", "share", "text"};

struct Measure {
  std::string name;  // "time of a step"
  Unit unit = Unit::kCount;
  double original = 0;
  double model = 0;
  std::string original_text = {};  // of kText only
  std::string model_text = {};

  // model / original; none if the original is 0, or text.
  std::optional<double> ratio() const;
  // Within 10 %; shares within 5 points; text the same.
  bool is_close() const;
};

struct Fidelity {
  std::vector<Measure> measures;   // those that at least one of the two has
  std::vector<std::string> notes;  // sentences

  size_t close_count() const;
};

// Profiles with all steps (Limits::all_steps) also compare what the loop does between regions.
Fidelity fidelity_of(const analyze::Profile& original, const analyze::Profile& model);

// A table: original, model, ratio. At most `terminal.columns` wide.
std::string fidelity_text(const Fidelity& fidelity, const Terminal& terminal);

// A list of measures, after a key.
void write_fidelity(JsonWriter& json, const Fidelity& fidelity);

// The value below which `share` of the counted values lie, interpolated within a bin; 0 if there
// are none.
double quantile_of(const LogHistogram& histogram, double share);

}  // namespace millrace::model
