// Region: the Python objects that mark regions. A Region is the description and can be entered
// again and again, nested and by several threads; a Span is one run of it; a RegionFunction is a
// function each of whose calls is a run; an Iterate is an iterable each of whose items is one; an
// Outermost is a function whose calls are looked at only where they are not within another such
// call.
#pragma once

#include <Python.h>
#include <pthread.h>

#include "recorder.h"

namespace millrace::python {

// One `with` that has not ended. The owner is the POSIX thread and not the kernel's number of it,
// which a fork changes while the `with` goes on in the child.
struct Entry {
  Begun begun;
  pthread_t owner;
};

struct Region {
  PyObject ob_base;
  Description what;
  PyObject* tag_names;    // a tuple, or null: for repr and pickle
  PyObject** tag_values;  // as many, each an int, float or str
  Entry* entries;         // `first`, or memory of its own
  uint32_t entry_count;
  uint32_t entry_capacity;
  Entry first[2];
};

extern PyTypeObject region_type;
extern PyTypeObject span_type;
extern PyTypeObject region_function_type;
extern PyTypeObject iterate_type;
extern PyTypeObject outermost_type;

// A new Region of `name` (a str) with the keywords given as vectorcall gives them. Null: an
// exception is set.
Region* make_region(PyObject* name, PyObject* const* values, PyObject* keywords);

PyObject* begin_span(Region* region);

// Reads an epoch or a step: None is `none`. False: an exception is set.
bool read_count(PyObject* value, const char* what, uint64_t max, uint64_t none, uint64_t& count);

}  // namespace millrace::python
