// Profile: what a job did, in numbers. Reports and rules are based on it.
//
// A plain value. Times are in nanoseconds. Points in time ("begin_ns" of an epoch) are on the
// common clock of the trace and relative to Job::begin_ns; the rest are durations. Lists are cut to
// what people and pages can use (Limits in scan.h). The totals beside them cover everything. JSON,
// tables and SQL have the same names. All fields are in profile.schema, which the structs are
// written from.
#pragma once

#include "analyze/profile/profile_structs.h"  // IWYU pragma: export

namespace millrace::analyze {

// The I/O on the files of both.
IoTotals& operator+=(IoTotals& totals, const IoTotals& other);
AccessCounts& operator+=(AccessCounts& counts, const AccessCounts& other);

}  // namespace millrace::analyze
