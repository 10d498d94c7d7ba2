// Tags: keyword arguments as key=value pairs of a region.
#pragma once

#include "region.h"

namespace millrace::python {

// Takes epoch and step out of the keywords and makes tags of the rest. The values are kept as int,
// float or str, also where nothing is recorded. False: an exception is set.
bool take_keywords(Region* region, PyObject* const* values, PyObject* keywords);

void free_tags(Region* region);

}  // namespace millrace::python
