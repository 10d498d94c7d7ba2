// Tags: keyword arguments as key=value pairs of a region.
#pragma once

#include "region.h"

namespace millrace::python {

// Removes epoch and step from the keywords and makes tags of the rest. Values are converted to int,
// float or str, even if nothing is recorded. False: an exception is set.
bool take_keywords(Region* region, PyObject* const* values, PyObject* keywords);

void free_tags(Region* region);

}  // namespace millrace::python
