// The report for a terminal: one screen that says whether data is the bottleneck, and where.
#pragma once

#include <string>

#include "advise/verdict.h"
#include "analyze/profile/profile.h"
#include "base/system/terminal.h"

namespace millrace::report {

// Without findings: the caller appends them.
std::string report_text(const analyze::Profile& profile, const advise::Verdict& verdict,
                        const Terminal& terminal);

}  // namespace millrace::report
