// Findings as text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "advise/advise.h"
#include "base/terminal.h"

namespace millrace::advise {

// Findings with evidence, threshold, gain and changes, then the unknown values for which rules
// were skipped.
std::string findings_text(const std::vector<Finding>& findings, const Machine& machine,
                          const Terminal& terminal);

// Two lines per finding, at most `count_max` findings: for the end of a report.
std::string findings_brief(const std::vector<Finding>& findings, size_t count_max,
                           const Terminal& terminal);

// All rules with their summaries.
std::string rules_text(const Terminal& terminal);

}  // namespace millrace::advise
