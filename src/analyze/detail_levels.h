// Levels: how busy each thread was in each layer, in finer and finer bins over the whole job.
//
// They fill the gap between the timelines of the whole job and the windows of single events. Epochs
// and steps only contain other regions and do not count as busy: their bar would be full
// everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "analyze/context.h"
#include "analyze/detail.h"

namespace millrace::analyze {

struct LevelRow {
  trace::ThreadIndex thread{};
  Layer layer{};
  std::vector<uint16_t> busy;  // in thousandths; zeros at the end are left out
};

struct DetailLevel {
  uint64_t bin_ns = 0;
  std::vector<LevelRow> rows;
};

// From coarse to fine. A layer in which a thread did nothing has no row. If there are more threads
// or blocks than the limits allow, evenly spaced ranks are selected.
std::vector<DetailLevel> make_levels(const Context& context, const DetailLimits& limits);

}  // namespace millrace::analyze
