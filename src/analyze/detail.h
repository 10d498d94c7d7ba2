// Detail: single events of chosen moments, and how busy each thread was, for pages that zoom in.
//
// A second look at a trace, after its profile: only blocks of the chosen windows are read again,
// and, for the levels, those of the threads that are shown. A small trace is one window with all of
// its events. docs/formats/page-data.md has the JSON.
#pragma once

#include <cstddef>
#include <string>

#include "analyze/context.h"
#include "analyze/profile.h"

namespace millrace::analyze {

struct DetailLimits {
  size_t events = 100'000;      // of all windows; a trace of no more is one window
  size_t processes = 8;         // a window, unless it is the whole job
  size_t level_threads = 128;   // with rows of their own
  size_t level_bins = 100'000;  // of all rows of all levels: some 4 bytes of text each
  size_t level_blocks = 2000;   // that are read for them
};

// JSON in one line: every number is exact as a double, every text is UTF-8. Blocks that cannot be
// read are left out; the scan has told of them.
std::string detail_json(const Context& context, const Profile& profile,
                        const DetailLimits& limits = {});

}  // namespace millrace::analyze
