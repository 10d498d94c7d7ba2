// Session: the directory that all processes of a launch on one host record into.
#pragma once

#include "trace/preload/settings.h"
#include "wire/trace_session.h"

namespace millrace::trace {

// Maps the session's page, making the session where no launcher did: then it is one a host, under
// MILLRACE_TRACE_DIR, and settings.session becomes its directory. Null where that fails; *error is
// the errno value.
wire::SessionPage* attach_session(Settings& settings, int* error);

// The same instant on the trace's counter, the monotonic clock and the time of day.
wire::ClockSample sample_clocks(bool ticks_from_cpu);

}  // namespace millrace::trace
