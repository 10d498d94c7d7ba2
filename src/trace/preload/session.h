// Session: the directory into which all processes of a launch on one host record.
#pragma once

#include "trace/preload/settings.h"
#include "wire/trace_session.h"

namespace millrace::trace {

// Maps the session's page. If no launcher created a session, creates one per host under
// MILLRACE_TRACE_DIR and stores its directory in settings.session. Null if that fails; *error is
// then the errno value.
wire::SessionPage* attach_session(Settings& settings, int* error);

// The same instant on the trace's counter, the monotonic clock and the wall clock.
wire::ClockSample sample_clocks(bool ticks_from_cpu);

}  // namespace millrace::trace
