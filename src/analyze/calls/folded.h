// Folded stacks: the call tree as lines for flame graph tools.
//
//   epoch;fetch;H5Dread;pread 12345
//
// One line per node of the tree, with its own time in microseconds.
#pragma once

#include <string>

#include "analyze/profile/profile.h"

namespace millrace::analyze {

// Nodes with less than half a microsecond of their own time have no line. Names are made printable,
// and ';' in a name becomes ','.
std::string folded_stacks(const Profile& profile);

}  // namespace millrace::analyze
