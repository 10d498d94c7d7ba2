// Verdict: whether data is the bottleneck of a job, in one sentence.
//
// Computed once from the profile and its findings. `report`, `advise`, their JSON and the page all
// show this sentence, so that they cannot disagree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "advise/advise.h"
#include "analyze/profile/profile.h"

namespace millrace::advise {

enum class Answer : uint8_t {
  kNo,       // no finding can save time
  kYes,      // a finding can save time
  kUnknown,  // the trace does not show it
};
inline constexpr std::string_view kAnswerNames[] = {"no", "yes", "unknown"};

struct Verdict {
  Answer answer{};
  std::string sentence;  // "yes: training waits for data 38.0 % of its time (small reads)"
};

// `findings` are those of advise() for the same profile.
Verdict verdict_of(const analyze::Profile& profile, const std::vector<Finding>& findings);

}  // namespace millrace::advise
