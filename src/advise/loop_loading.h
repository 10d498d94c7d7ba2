// loop_loading: loading that lies outside the regions of a loader.
//
// A job without a loader reads its data in the training loop.
// Such a job has no regions of loading. Its reads are calls in the gaps between steps
// (Profile::stalls), or in its regions of waiting. Rules about loading need no second form for it:
// this turns them into what the regions of a loader would have been. The same loop gets the same
// diagnosis whichever regions are marked. In a job with a loader, threads of the dataset may read
// for it, and the regions only show that it waits for them.
#pragma once

#include "analyze/profile/profile.h"

namespace millrace::advise {

// The profile, with `loading`, waiting and fetching from those gaps or waits, and without these
// stalls. The loading as it is if it has a loader, or if the loop reads no data files; but if no
// region marks samples, they are counted by the files that are opened.
analyze::Profile with_loop_loading(const analyze::Profile& profile);

// The same for reads of helper threads in the epochs, which become part of the loading that waited
// for them. The profile as it is if there are none, or if they come from the page cache.
analyze::Profile with_helper_reads(const analyze::Profile& profile);

}  // namespace millrace::advise
