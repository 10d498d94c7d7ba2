// Folded stacks: the call tree as lines that flame graph tools read.
//
//   epoch;fetch;H5Dread;pread 12345
//
// A line a place in the tree, with the time spent there itself in microseconds.
#pragma once

#include <string>

#include "analyze/profile.h"

namespace millrace::analyze {

// Places with less than half a microsecond of their own have no line. Names are made safe to print;
// a ';' in one becomes ','.
std::string folded_stacks(const Profile& profile);

}  // namespace millrace::analyze
