// TimeProfile: turns the result of a sweep into the parts of a profile about time.
#pragma once

#include "analyze/context.h"
#include "analyze/profile.h"
#include "analyze/scan.h"
#include "analyze/time_sweep.h"

namespace millrace::analyze {

// Writes Profile::time, and the busy and overlapped time of the layers in the profile.
void write_time(const Context& context, const TimePlan& plan, const SweptTime& swept,
                Profile& profile);

// Writes Profile::epochs, without I/O and actions.
void write_epochs(const Context& context, const TimePlan& plan, const SweptTime& swept,
                  Profile& profile);

// Writes Profile::steps.
void write_steps(const Context& context, const Limits& limits, const SweptTime& swept,
                 Profile& profile);

}  // namespace millrace::analyze
