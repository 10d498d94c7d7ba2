// millrace._trace: the part of millrace.trace that must be fast.
//
// It does not use the limited API, which has no vectorcall before Python 3.12: without it, a region
// would cost twice as much. So the module is built for one minor version of Python.
#include <Python.h>

#include <cstddef>

#include "device.h"
#include "method.h"
#include "recorder.h"
#include "region.h"
#include "wire/launchers.h"

namespace millrace::python {

namespace {

// Whether the program itself set the epoch or step. If so, do not overwrite them with guesses.
bool program_sets_epoch = false;
bool program_sets_step = false;

PyObject* enabled(PyObject*, PyObject*) { return PyBool_FromLong(is_recording()); }

PyObject* preloaded(PyObject*, PyObject*) { return PyBool_FromLong(recorder != nullptr); }

PyObject* mark(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  if (count != 1 || !PyUnicode_Check(arguments[0])) {
    PyErr_SetString(PyExc_TypeError, "mark() takes a name (a str) and tags (key=value)");
    return nullptr;
  }
  Region* region = make_region(arguments[0], arguments + 1, keywords);
  if (region == nullptr) return nullptr;
  if (is_recording()) {
    const Begun begun = begin_region(region->what);
    record_region(region->what, begun, begun.begin_ticks);
  }
  Py_DECREF(region);
  Py_RETURN_NONE;
}

// _pause(paused): whether this process records anything, regions and calls.
PyObject* pause(PyObject*, PyObject* paused) {
  const int value = PyObject_IsTrue(paused);
  if (value < 0) return nullptr;
  constexpr size_t kNeeded =
      offsetof(millrace_trace_functions, pause) + sizeof(millrace_trace_functions::pause);
  if (recorder != nullptr && recorder->size_bytes >= kNeeded) recorder->pause(value);
  Py_RETURN_NONE;
}

PyObject* set_epoch(PyObject*, PyObject* value) {
  uint64_t epoch = 0;
  if (!read_count(value, "epoch", MILLRACE_NO_EPOCH - 1, MILLRACE_NO_EPOCH, epoch)) return nullptr;
  thread_context()->epoch = static_cast<uint32_t>(epoch);
  program_sets_epoch = true;
  Py_RETURN_NONE;
}

PyObject* set_step(PyObject*, PyObject* value) {
  uint64_t step = 0;
  if (!read_count(value, "step", MILLRACE_NO_STEP - 1, MILLRACE_NO_STEP, step)) return nullptr;
  thread_context()->step = step;
  program_sets_step = true;
  Py_RETURN_NONE;
}

// _follow(epoch, step, force=False): sets an observed epoch and step, unless the program sets its
// own. Workers of a loader force it: there, the values are those that the training process has set.
PyObject* follow(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 2 || count > 3) {
    PyErr_SetString(PyExc_TypeError, "_follow() takes an epoch, a step and whether to force them");
    return nullptr;
  }
  uint64_t epoch = 0;
  uint64_t step = 0;
  if (!read_count(arguments[0], "epoch", MILLRACE_NO_EPOCH - 1, MILLRACE_NO_EPOCH, epoch) ||
      !read_count(arguments[1], "step", MILLRACE_NO_STEP - 1, MILLRACE_NO_STEP, step)) {
    return nullptr;
  }
  const bool force = count == 3 && arguments[2] == Py_True;
  millrace_context* context = thread_context();
  if (force || !program_sets_epoch) context->epoch = static_cast<uint32_t>(epoch);
  if (force || !program_sets_step) context->step = step;
  Py_RETURN_NONE;
}

PyObject* current(PyObject*, PyObject*) {
  const millrace_context* context = thread_context();
  PyObject* epoch = context->epoch == MILLRACE_NO_EPOCH ? Py_NewRef(Py_None)
                                                        : PyLong_FromUnsignedLong(context->epoch);
  PyObject* step = context->step == MILLRACE_NO_STEP ? Py_NewRef(Py_None)
                                                     : PyLong_FromUnsignedLongLong(context->step);
  return Py_BuildValue("(NN)", epoch, step);
}

PyObject* set_rank(PyObject*, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"rank", "world_size", nullptr};
  int rank = -1;
  int world_size = -1;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "i|i:set_rank", const_cast<char**>(names),
                                   &rank, &world_size)) {
    return nullptr;
  }
  if (rank < 0 || (world_size >= 0 && rank >= world_size)) {
    PyErr_Format(PyExc_ValueError, "rank is %d of %d; ranks are numbered from 0", rank, world_size);
    return nullptr;
  }
  if (recorder != nullptr) recorder->set_rank(rank, world_size);
  Py_RETURN_NONE;
}

// The variables of a mapping as C strings, valid as long as this object.
class Variables {
 public:
  explicit Variables(PyObject* mapping) : mapping_(mapping), values_(PyList_New(0)) {}
  ~Variables() { Py_XDECREF(values_); }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

  // Null if there is no such variable, or after an error (see PyErr_Occurred()).
  const char* operator()(const char* name) const {
    if (values_ == nullptr || PyErr_Occurred() != nullptr) return nullptr;
    PyObject* value = PyObject_CallMethod(mapping_, "get", "s", name);
    if (value == nullptr) return nullptr;
    const bool is_kept = value != Py_None && PyList_Append(values_, value) == 0;
    Py_DECREF(value);
    return is_kept ? PyUnicode_AsUTF8(value) : nullptr;
  }

 private:
  PyObject* mapping_;
  PyObject* values_;
};

PyObject* place_variables(PyObject*, PyObject* environment) {
  const Variables variable(environment);
  const wire::Launcher* launcher = wire::find_launcher(variable);
  wire::PlaceVariables place;
  if (launcher != nullptr) place = wire::place_variables(*launcher, variable);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return Py_BuildValue("(zzzz)", place.rank, place.size, place.local_rank, place.local_size);
}

PyObject* restore_region(PyObject*, PyObject* arguments) {
  PyObject* name = nullptr;
  PyObject* tags = nullptr;
  if (!PyArg_ParseTuple(arguments, "UO!:_restore_region", &name, &PyDict_Type, &tags)) {
    return nullptr;
  }
  PyObject* parameters = PyTuple_Pack(1, name);
  if (parameters == nullptr) return nullptr;
  PyObject* region = PyObject_Call(reinterpret_cast<PyObject*>(&region_type), parameters, tags);
  Py_DECREF(parameters);
  return region;
}

PyMethodDef functions[] = {
    {"enabled", enabled, METH_NOARGS,
     "Whether regions are recorded now. Ask only before work that is needed only for the trace."},
    {"_preloaded", preloaded, METH_NOARGS, "Whether libmillrace_trace.so is in this process."},
    {"mark", as_method(mark), METH_FASTCALL | METH_KEYWORDS,
     "mark(name, /, **tags): something happened now.\n\n    trace.mark(\"diverged\", loss=loss)"},
    {"set_epoch", set_epoch, METH_O,
     "Sets the epoch of this thread's regions from now on; None for none."},
    {"set_step", set_step, METH_O,
     "Sets the step of this thread's regions from now on; None for none."},
    {"_follow", as_method(follow), METH_FASTCALL, nullptr},
    {"_pause", pause, METH_O, nullptr},
    {"current", current, METH_NOARGS, "The epoch and step of this thread; None if not set."},
    {"set_rank", as_method(set_rank), METH_VARARGS | METH_KEYWORDS,
     "set_rank(rank, world_size=-1): sets the rank of this process, if no variable of MPI or Slurm\n"
     "gives it."},
    {"_place_variables", place_variables, METH_O,
     "The names of the variables in this environment with the rank, the number of ranks, and the\n"
     "same two for this host; None for those that are missing."},
    {"_restore_region", restore_region, METH_VARARGS, nullptr},
    {},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "millrace._trace",
                      nullptr,
                      -1,
                      functions,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

bool add_types(PyObject* target) {
  struct {
    const char* name;
    PyTypeObject* type;
  } const types[] = {{"region", &region_type},
                     {"Span", &span_type},
                     {"RegionFunction", &region_function_type},
                     {"iterate", &iterate_type},
                     {"_Outermost", &outermost_type},
                     {"_CopyMark", &copy_mark_type}};
  for (const auto& [name, type] : types) {
    if (PyType_Ready(type) < 0) return false;
    Py_INCREF(type);
    if (PyModule_AddObject(target, name, reinterpret_cast<PyObject*>(type)) < 0) return false;
  }
  return true;
}

}  // namespace

}  // namespace millrace::python

PyMODINIT_FUNC PyInit__trace() {
  millrace::python::find_recorder();
  PyObject* made = PyModule_Create(&millrace::python::module);
  if (made != nullptr && (!millrace::python::add_types(made) ||
                          PyModule_AddFunctions(made, millrace::python::device_functions) < 0)) {
    Py_CLEAR(made);
  }
  return made;
}
