// compare_view: the part of a comparison that is shown, as text and as JSON. Of this module alone.
#pragma once

#include <optional>
#include <vector>

#include "report/compare.h"

namespace millrace::report {

// Differences of one subject each, in the order of the comparison; of one dimension with all that
// is minor, or of all without.
std::vector<std::vector<Difference>> subjects_of(const Comparison& comparison,
                                                 std::optional<By> by);

}  // namespace millrace::report
