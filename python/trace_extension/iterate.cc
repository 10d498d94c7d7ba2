#include "method.h"
#include "region.h"

namespace millrace::python {

namespace {

// With an iterator, it is one iteration; without, an iterable that can start new ones.
struct Iterate {
  PyObject ob_base;
  PyObject* iterable;
  PyObject* iterator;  // null: not started
  Region* region;
  uint64_t step;           // of the next item
  uint64_t previous_step;  // of the thread, before the first item
};

Iterate* as_iterate(PyObject* object) { return reinterpret_cast<Iterate*>(object); }

PyObject* make_walk(PyTypeObject* type, PyObject* iterable, Region* region) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Iterate* walk = as_iterate(self);
  walk->iterable = Py_NewRef(iterable);
  Py_INCREF(region);
  walk->region = region;
  walk->step = region->what.step != MILLRACE_NO_STEP ? region->what.step : 0;
  return self;
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  PyObject* iterable = nullptr;
  PyObject* name = nullptr;
  if (!PyArg_ParseTuple(arguments, "O|U:iterate", &iterable, &name)) return nullptr;
  PyObject* parameters = name != nullptr ? PyTuple_Pack(1, name) : Py_BuildValue("(s)", "fetch");
  if (parameters == nullptr) return nullptr;
  PyObject* region = PyObject_Call(reinterpret_cast<PyObject*>(&region_type), parameters, keywords);
  Py_DECREF(parameters);
  if (region == nullptr) return nullptr;
  PyObject* self = make_walk(type, iterable, reinterpret_cast<Region*>(region));
  Py_DECREF(region);
  return self;
}

bool begin_walk(Iterate* walk) {
  walk->iterator = PyObject_GetIter(walk->iterable);
  walk->previous_step = thread_context()->step;
  return walk->iterator != nullptr;
}

PyObject* iterate(PyObject* self) {
  Iterate* given = as_iterate(self);
  if (given->iterator != nullptr) return Py_NewRef(self);
  PyObject* walk = make_walk(Py_TYPE(self), given->iterable, given->region);
  if (walk != nullptr && !begin_walk(as_iterate(walk))) Py_CLEAR(walk);
  return walk;
}

// The last call, which finds no item, is not recorded.
bool is_end() {
  return PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_StopIteration) != 0;
}

PyObject* next(PyObject* self) {
  Iterate* walk = as_iterate(self);
  if (walk->iterator == nullptr && !begin_walk(walk)) return nullptr;
  const iternextfunc real_next = Py_TYPE(walk->iterator)->tp_iternext;
  if (!is_recording()) return real_next(walk->iterator);
  Begun begun = begin_region(walk->region->what);
  begun.step = walk->step;
  PyObject* item = real_next(walk->iterator);
  if (item != nullptr) {
    end_region(walk->region->what, begun);
    thread_context()->step = walk->step++;  // so the body of the loop has the step of the item
    return item;
  }
  if (!is_end()) end_region(walk->region->what, begun, PyErr_Occurred());
  thread_context()->step = walk->previous_step;
  return nullptr;
}

Py_ssize_t length(PyObject* self) { return PyObject_Size(as_iterate(self)->iterable); }

// Forwards attributes, so that it can replace the loader: loader.dataset,
// loader.sampler.set_epoch().
PyObject* find_attribute(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return found;
  PyErr_Clear();
  return PyObject_GetAttr(as_iterate(self)->iterable, name);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_iterate(self)->iterable);
  Py_VISIT(as_iterate(self)->iterator);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_iterate(self)->iterable);
  Py_CLEAR(as_iterate(self)->iterator);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  Py_CLEAR(as_iterate(self)->region);
  Py_TYPE(self)->tp_free(self);
}

PySequenceMethods sequence = {.sq_length = length};

}  // namespace

PyTypeObject iterate_type = {
    .ob_base = kTypeHead,
    .tp_name = "millrace.trace.iterate",
    .tp_basicsize = sizeof(Iterate),
    .tp_dealloc = destroy,
    .tp_as_sequence = &sequence,
    .tp_getattro = find_attribute,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "iterate(iterable, name=\"fetch\", /, **tags): the same items; fetching each is a region.\n\n"
        "    for batch in trace.iterate(loader, \"fetch\"):\n"
        "        train(batch)                # regions in here have the batch's step\n\n"
        "Steps count from 0, or from `step=`, in every iteration.",
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_iter = iterate,
    .tp_iternext = next,
    .tp_new = make,
};

}  // namespace millrace::python
