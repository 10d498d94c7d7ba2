// loop_loading: loading that lies outside the regions of a loader.
//
// A job without a loader reads its data in the training loop.
// Such a job has no regions of loading. Its reads are calls in the gaps between steps
// (Profile::stalls). Rules about loading need no second form for it: this turns the gaps into what
// the regions of a loader would have been. In a job with one, threads of the dataset may read for
// it, and the regions only show that it waits for them.
#pragma once

#include "analyze/profile/profile.h"

namespace millrace::advise {

// The profile, with `loading`, waiting and fetching from those gaps, and without these stalls. The
// profile as it is if it has a loader, or if the loop reads no data files.
analyze::Profile with_loop_loading(const analyze::Profile& profile);

// The same for reads of helper threads in the epochs, which become part of the loading that waited
// for them. The profile as it is if there are none, or if they come from the page cache.
analyze::Profile with_helper_reads(const analyze::Profile& profile);

}  // namespace millrace::advise
