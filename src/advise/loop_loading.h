// loop_loading: jobs without a loader, whose training loop reads its data itself.
//
// Such a job has no regions of loading. Its reads are calls in the gaps between steps
// (Profile::stalls). Rules about loading need no second form for it: this turns the gaps into what
// the regions of a loader would have been.
#pragma once

#include "analyze/profile/profile.h"

namespace millrace::advise {

// The profile, with `loading`, waiting and fetching from those gaps, and without these stalls. The
// profile as it is if it has a loader, or if the loop reads no data files.
analyze::Profile with_loop_loading(const analyze::Profile& profile);

}  // namespace millrace::advise
