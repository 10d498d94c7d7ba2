// Findings as text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "advise/advise.h"
#include "base/terminal.h"

namespace millrace::advise {

// Each with its evidence, threshold, changes and gain; after them what was not known and kept rules
// silent.
std::string findings_text(const std::vector<Finding>& findings, const Machine& machine,
                          const Terminal& terminal);

// Two lines a finding, of at most `count_max` of them: for the end of a report.
std::string findings_brief(const std::vector<Finding>& findings, size_t count_max,
                           const Terminal& terminal);

// All rules with what they look for.
std::string rules_text(const Terminal& terminal);

}  // namespace millrace::advise
