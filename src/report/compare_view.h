// compare_view: the part of a comparison that text and JSON show. Private to this module.
#pragma once

#include <optional>
#include <vector>

#include "report/compare.h"

namespace millrace::report {

// Differences grouped by subject, in the order of the comparison. With `by`: the job and this
// dimension, including minor differences. Without: all dimensions, without minor ones.
std::vector<std::vector<Difference>> subjects_of(const Comparison& comparison,
                                                 std::optional<By> by);

}  // namespace millrace::report
