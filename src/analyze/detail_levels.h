// Levels: how busy each thread was in each layer, in ever finer bins over the whole job.
//
// They stand between the timelines of the whole job and the windows of single events. Regions that
// only hold others, epochs and steps, do not count as busy: their bar would be full everywhere.
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

// From coarse to fine. Layers in which a thread did nothing have no row; where there are more
// threads, or more blocks, than the limits allow, ranks are evenly chosen.
std::vector<DetailLevel> make_levels(const Context& context, const DetailLimits& limits);

}  // namespace millrace::analyze
