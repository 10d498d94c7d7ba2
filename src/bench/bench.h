// bench: the I/O of a training job from a YAML file, without the model.
//
// It generates the dataset, loads it as the job would, emulates the accelerator's compute,
// evaluates, writes checkpoints and reports. Names, layouts and result files are those of DLIO, so
// that either tool can use the other's workloads and datasets.
#pragma once

#include "bench/workload/workload.h"
