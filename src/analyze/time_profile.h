// TimeProfile: what was swept, as the parts of a profile that are about time.
#pragma once

#include "analyze/context.h"
#include "analyze/profile.h"
#include "analyze/scan.h"
#include "analyze/time_sweep.h"

namespace millrace::analyze {

// Profile::time, and the busy and hidden time of the layers that the profile has.
void write_time(const Context& context, const TimePlan& plan, const SweptTime& swept,
                Profile& profile);

// Profile::epochs, without I/O and actions.
void write_epochs(const Context& context, const TimePlan& plan, const SweptTime& swept,
                  Profile& profile);

// Profile::steps.
void write_steps(const Context& context, const Limits& limits, const SweptTime& swept,
                 Profile& profile);

}  // namespace millrace::analyze
