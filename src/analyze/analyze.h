// analyze: computes what a job did from its trace, in one parallel scan.
//
// A scan reads every block once and passes it to a list of metrics, one per file. Each metric adds
// its part to the Profile. What a metric has seen does not depend on the order of the blocks and
// can be saved, sent and merged. A scan can therefore be divided among threads and ranks, and its
// counts are the same to the bit.
//
//   context.h   what is known before the scan: ranks, roles of regions, epochs and steps
//   metric.h    the interface of a metric
//   scan.h      runs the metrics over a trace
//   profile/    the result, and its JSON
//   calls/      metrics of functions and of calls within calls
//   files/      metrics of files, access patterns and the order of reads
//   time/       metrics of time: how it was spent, and what happened when
//   epochs/     epochs, steps and checkpoints
//   detail/     single events, for pages that zoom in
//   testing/    for tests: builds traces, runs single metrics
#pragma once

#include "analyze/context.h"          // IWYU pragma: export
#include "analyze/metric.h"           // IWYU pragma: export
#include "analyze/profile/profile.h"  // IWYU pragma: export
#include "analyze/scan.h"             // IWYU pragma: export
