// Loading: what the time of making batches consists of, from the call tree.
#pragma once

#include "analyze/calls/call_tree.h"
#include "analyze/profile/profile.h"

namespace millrace::analyze {

// Fills the times and counts of Profile::loading. Uses Profile::time.
void add_loading(const CallTree& tree, const Context& context, Profile& profile);

}  // namespace millrace::analyze
