// same_dataset: whether all ranks of a job have the same dataset.
//
// Ranks that move samples among each other know them by their numbers. If a node has another file,
// each number may mean another sample there. Names and labels are compared for all samples (of more
// than a million, for evenly spaced ones), relative to their common directory; lengths and bytes
// for a few evenly spaced samples. Times are not compared: copies of the same files differ in them.
#pragma once

#include "base/result.h"
#include "comm/comm.h"
#include "data/source.h"

namespace millrace::loader {

// Collective. Fails on all ranks with the same error, which names the first sample that differs.
Status check_same_dataset(const data::SampleSource& source, comm::Comm& comm);

}  // namespace millrace::loader
