// SummaryReport: a trace's summary as text and as JSON.
#pragma once

#include <string>

#include "base/terminal.h"
#include "trace/summary/summary.h"

namespace millrace::trace {

std::string summary_text(const Trace& trace, const Summary& summary, const Terminal& terminal);

// docs/formats/info-json.md.
std::string summary_json(const Trace& trace, const Summary& summary);

}  // namespace millrace::trace
