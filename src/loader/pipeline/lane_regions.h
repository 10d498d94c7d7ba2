// The regions of a lane in a trace. Only for lane*.cc.
#pragma once

#include <millrace/trace.h>

#include <cstdint>

#include "data/sample.h"
#include "loader/pipeline/schedule.h"

namespace millrace::loader::pipeline::lane_regions {

inline constinit Name fetch{MILLRACE_FETCH};
inline constinit Name read{MILLRACE_READ};
inline constinit Name decode{MILLRACE_DECODE};

inline void place(Region& region, const ScheduledBatch& batch) {
  region.epoch(static_cast<uint32_t>(data::number_of(batch.epoch))).step(batch.index);
}

}  // namespace millrace::loader::pipeline::lane_regions
