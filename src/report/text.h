// The report on a terminal: one screen that answers whether I/O is the problem, and which.
#pragma once

#include <string>
#include <string_view>

#include "analyze/profile.h"
#include "base/terminal.h"

namespace millrace::report {

// The answer in a sentence: "yes: training waits for data 38 % of its time", with the ground for
// it.
std::string answer(const analyze::Profile& profile);

// Without findings: the caller puts them below.
std::string report_text(const analyze::Profile& profile, const Terminal& terminal);

}  // namespace millrace::report
