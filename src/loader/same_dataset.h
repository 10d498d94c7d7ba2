// same_dataset: whether all ranks of a job have the same dataset.
//
// Ranks that move samples among each other know them by their numbers. If a node has another file,
// each number may mean another sample there. Compared are:
//  - names and labels of all samples, relative to their common directory;
//  - sizes of all files;
//  - bytes of 32 evenly spaced samples, and of the first whose file has another time of change.
// Of more than a million samples or files, evenly spaced ones are compared. If a status takes long,
// as on a shared file system, the sizes of 4,096 files are. Other times alone are no difference:
// copies of the same files have them.
#pragma once

#include "base/result.h"
#include "comm/comm.h"
#include "data/source.h"

namespace millrace::loader {

// Collective. Fails on all ranks with the same error, which names the first sample that differs.
Status check_same_dataset(const data::SampleSource& source, comm::Comm& comm);

}  // namespace millrace::loader
