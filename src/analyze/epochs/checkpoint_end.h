// The end of a checkpoint: where the calls end that complete its files.
//
// A careful program saves to a temporary file, then flushes, syncs, closes and renames it. These
// calls come after the region around torch.save(), and training waits for them too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "analyze/vocabulary.h"
#include "base/numbers/interval_set.h"
#include "trace/read/columns.h"

namespace millrace::analyze {

using RoleOf = std::function<Role(size_t event)>;  // the role of the region that an event is

// Whether what begins at this time may still belong to the checkpoint: saving pauses for a tenth of
// a second, or for as long as it took so far, but not for longer.
bool follows_checkpoint(uint64_t time_ns, const Interval& checkpoint);

// `first` is the region of a checkpoint, or the call that opens its file. Only calls of the same
// thread in the same block are found, up to its next region with an activity. Returns the end of
// `first` if there are none.
uint64_t end_of_checkpoint(const trace::EventColumns& columns, size_t first, const RoleOf& role_of);

// Calls of a thread that create a file named like a checkpoint, outside all activities: the state
// is saved without torch.save(), for example with pickle. At most one between two activities.
// `is_checkpoint` judges a name.
std::vector<size_t> find_unmarked_checkpoints(
    const trace::EventColumns& columns, trace::ThreadIndex thread, const RoleOf& role_of,
    const std::function<bool(trace::NameIndex file)>& is_checkpoint);

}  // namespace millrace::analyze
