// Findings as text for a terminal.
#pragma once

#include <string>
#include <vector>

#include "advise/advise.h"
#include "advise/verdict.h"
#include "base/system/terminal.h"

namespace millrace::advise {

// The verdict; findings with changes, gain, other ways, evidence and threshold; the unknown values
// of the machine.
std::string findings_text(const Verdict& verdict, const std::vector<Finding>& findings,
                          const Machine& machine, const Terminal& terminal);

// Two lines per finding, at most `count_max` findings: for the end of a report. Titles and changes
// are shortened to the width of the terminal, the saving is not.
std::string findings_brief(const std::vector<Finding>& findings, size_t count_max,
                           const Terminal& terminal);

// All rules with their summaries.
std::string rules_text(const Terminal& terminal);

}  // namespace millrace::advise
