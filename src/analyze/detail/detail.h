// Detail: single events of selected windows of time, and how busy each thread was, for pages that
// zoom in.
//
// A second pass over a trace, after its profile. It reads only the blocks of the selected windows
// and, for the levels, those of the threads that are shown. A small trace is one window with all of
// its events. docs/formats/page-data.md describes the JSON.
#pragma once

#include <cstddef>
#include <string>

#include "analyze/context.h"
#include "analyze/profile/profile.h"

namespace millrace::analyze {

struct DetailLimits {
  size_t events = 100'000;      // over all windows; a trace with no more events is one window
  size_t processes = 8;         // per window, unless the window is the whole job
  size_t level_threads = 128;   // with rows of their own
  size_t level_bins = 100'000;  // over all rows of all levels; each takes about 4 bytes of text
  size_t level_blocks = 2000;   // blocks read for the levels
};

// JSON on one line. Every number is exact as a double, every text is UTF-8. Unreadable blocks are
// left out; the scan has reported them.
std::string detail_json(const Context& context, const Profile& profile,
                        const DetailLimits& limits = {});

}  // namespace millrace::analyze
