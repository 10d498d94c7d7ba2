// The end of a checkpoint: where the calls end that complete its files.
//
// A careful program saves to a temporary file, then flushes, syncs, closes and renames it. These
// calls come after the region around torch.save(), and training waits for them too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "analyze/vocabulary.h"
#include "trace/read/columns.h"

namespace millrace::analyze {

// `region` is the event of a checkpoint; `role_of(i)` returns the role of the region that event i
// is. Only calls of the same thread in the same block are found, up to its next region with an
// activity. Returns the end of the region itself if there are none.
uint64_t end_of_checkpoint(const trace::EventColumns& columns, size_t region,
                           const std::function<Role(size_t event)>& role_of);

}  // namespace millrace::analyze
