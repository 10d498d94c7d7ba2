// Scale: shrinks a workload to a machine, and keeps its shape.
//
// `scale` is the share of the dataset's bytes, of the steps and of the checkpoint that remains:
//  - The number of samples shrinks, but not below 16 batches (or all samples).
//  - Files with one sample: fewer files. Others: fewer files, but not below 8, then fewer samples
//  in
//    a file. Subfolders keep their number of files, as far as possible.
//  - A sample keeps its size, unless the samples that must remain exceed both the scaled dataset
//    and 1 GiB. Then samples shrink to fit into the larger of these.
//  - total_training_steps and steps_between_checkpoints shrink, so that as many checkpoints are
//    written; time_between_checkpoints shrinks as well.
//  - The checkpoint shrinks in bytes: model_size_bytes, optimization_groups, layer_parameters and
//    file_sizes by `scale`; the widths of a transformer by its square root. The number of layers,
//    the parallelism and so the number of files stay.
//  - Batch size, threads, epochs and times stay: a step is the same step.
#pragma once

#include "base/result.h"
#include "bench/workload/workload.h"

namespace millrace::bench {

// Fails if `scale` is not above 0 and at most 1.
Status scale(Workload& workload, double scale);

}  // namespace millrace::bench
