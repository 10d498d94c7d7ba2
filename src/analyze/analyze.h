// analyze: what a job did, worked out from its trace in one parallel scan.
//
// A scan reads every block once and shows it to a list of metrics, one a file, each of which adds
// its part to the Profile. What a metric has seen is order-free and can be saved, sent and merged:
// a scan may be shared out over threads and ranks, and its counts come out the same to the bit.
//
//   context.h   what is known before the scan: ranks, roles of regions, epochs and steps
//   metric.h    what a metric is
//   scan.h      runs the metrics over a trace
//   profile.h   what comes out
//   profile_json.h   the profile as a file, and back
#pragma once

#include "analyze/context.h"  // IWYU pragma: export
#include "analyze/metric.h"   // IWYU pragma: export
#include "analyze/profile.h"  // IWYU pragma: export
#include "analyze/scan.h"     // IWYU pragma: export
