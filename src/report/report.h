// report: what people and programs get to see of profiles: on a terminal, in a page, compared.
//
// Everything here is a function of profiles (and of findings about them): no trace is read, nothing
// is printed. Figures that are shown are those of the profile's JSON; what is worked out on the way
// (a share, a speed-up) is explained in docs/design.
//
//   compare.h   what differs between two jobs, and what that cost
//   scaling.h   how a job gets on with more nodes
#pragma once

#include "report/compare.h"  // IWYU pragma: export
#include "report/scaling.h"  // IWYU pragma: export
