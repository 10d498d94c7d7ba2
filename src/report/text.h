// The report for a terminal: one screen that says whether I/O is the problem, and where.
#pragma once

#include <string>
#include <string_view>

#include "analyze/profile/profile.h"
#include "base/terminal.h"

namespace millrace::report {

// The answer in one sentence: "yes: training waits for data 38 % of its time".
std::string answer(const analyze::Profile& profile);

// Without findings: the caller appends them.
std::string report_text(const analyze::Profile& profile, const Terminal& terminal);

}  // namespace millrace::report
