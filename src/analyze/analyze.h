// analyze: computes what a job did from its trace, in one parallel scan.
//
// A scan reads every block once and passes it to a list of metrics, one per file. Each metric adds
// its part to the Profile. What a metric has seen does not depend on the order of the blocks and
// can be saved, sent and merged. A scan can therefore be divided among threads and ranks, and its
// counts are the same to the bit.
//
//   context.h        what is known before the scan: ranks, roles of regions, epochs and steps
//   metric.h         the interface of a metric
//   scan.h           runs the metrics over a trace
//   profile.h        the result
//   profile_json.h   writes the profile to a file and reads it back
#pragma once

#include "analyze/context.h"  // IWYU pragma: export
#include "analyze/metric.h"   // IWYU pragma: export
#include "analyze/profile.h"  // IWYU pragma: export
#include "analyze/scan.h"     // IWYU pragma: export
