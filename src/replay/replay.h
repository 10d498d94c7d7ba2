// replay: makes the I/O calls of a trace again, against another folder.
//
// make_plan() (plan.h) turns the events into steps by thread. prepare() (prepare.h) creates the
// files that they read. run() (run.h) makes the calls and measures them. This header compares the
// result with the trace, as text and as JSON.
//
// Everything happens below one folder, and only what the replay has made itself is changed
// (folder.h, docs/design/replay.md).
#pragma once

#include <string>

#include "base/system/terminal.h"
#include "replay/plan.h"
#include "replay/prepare.h"
#include "replay/run.h"

namespace millrace::replay {

// What a report is about.
struct Replayed {
  std::string title;  // the trace, as the user gave it
  const Plan& plan;
  const Prepared& prepared;
  const RunResult& result;
  Timing timing = Timing::kFast;
  bool filled = false;
  bool cleaned = false;
};

std::string report_text(const Replayed& replayed, const Terminal& terminal);
std::string report_json(const Replayed& replayed);

// "fast", "as-recorded".
std::string_view timing_name(Timing timing);

}  // namespace millrace::replay
