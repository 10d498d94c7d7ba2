// Region: the Python objects that mark regions. A Region is the description; it can be entered
// repeatedly, nested and by several threads. A Span is one run of it. A RegionFunction is a
// function each of whose calls is a run. An Iterate is an iterable each of whose items is a run. An
// Outermost is a function that marks only calls that are not inside another such call.
#pragma once

#include <Python.h>
#include <pthread.h>

#include "recorder.h"

namespace millrace::python {

// One `with` that has not ended. The owner is the POSIX thread and not the kernel's thread id: a
// fork changes the id while the `with` continues in the child.
struct Entry {
  Begun begun;
  pthread_t owner;
};

struct Region {
  PyObject ob_base;
  Description what;
  PyObject* tag_names;    // a tuple, or null: for repr and pickle
  PyObject** tag_values;  // one per name, each an int, float or str
  Entry* entries;         // points to `first`, or to allocated memory
  uint32_t entry_count;
  uint32_t entry_capacity;
  Entry first[2];
};

extern PyTypeObject region_type;
extern PyTypeObject span_type;
extern PyTypeObject region_function_type;
extern PyTypeObject iterate_type;
extern PyTypeObject outermost_type;

// A new Region named `name` (a str), with keywords as in vectorcall. Null: an exception is set.
Region* make_region(PyObject* name, PyObject* const* values, PyObject* keywords);

PyObject* begin_span(Region* region);

// Reads an epoch or a step; None becomes `none`. False: an exception is set.
bool read_count(PyObject* value, const char* what, uint64_t max, uint64_t none, uint64_t& count);

}  // namespace millrace::python
