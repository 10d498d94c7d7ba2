#include <Python.h>
#include <structmember.h>

#include <cstddef>

#include "device.h"
#include "method.h"
#include "region.h"

namespace millrace::python {

namespace {

struct RegionFunction {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  PyObject* function;
  Region* region;
  PyObject* attributes;
  PyObject* weak_references;
  char is_timed;  // it launches work of the device
  char is_last;   // and is the last of a step to do so
};

RegionFunction* as_function(PyObject* object) { return reinterpret_cast<RegionFunction*>(object); }

PyObject* call(PyObject* self, PyObject* const* arguments, size_t flags, PyObject* keywords) {
  const RegionFunction* traced = as_function(self);
  if (!is_recording()) {
    return PyObject_Vectorcall(traced->function, arguments, flags, keywords);
  }
  Description& what = traced->region->what;
  const Begun begun = begin_region(what);
  const bool is_timed = traced->is_timed != 0 && enter_device(Work::kCompute);
  PyObject* result = PyObject_Vectorcall(traced->function, arguments, flags, keywords);
  if (is_timed) leave_device(false);
  if (is_timed && traced->is_last != 0) end_device_step();
  end_region(what, begun, result == nullptr ? PyErr_Occurred() : nullptr);
  return result;
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  PyObject* region = nullptr;
  PyObject* function = nullptr;
  if (keywords != nullptr && PyDict_GET_SIZE(keywords) != 0) {
    PyErr_SetString(PyExc_TypeError, "RegionFunction() takes no keyword arguments");
    return nullptr;
  }
  if (!PyArg_ParseTuple(arguments, "O!O:RegionFunction", &region_type, &region, &function)) {
    return nullptr;
  }
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  RegionFunction* traced = as_function(self);
  traced->vectorcall = call;
  traced->function = Py_NewRef(function);
  Py_INCREF(region);
  traced->region = reinterpret_cast<Region*>(region);
  return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_function(self)->function);
  Py_VISIT(as_function(self)->attributes);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_function(self)->function);
  Py_CLEAR(as_function(self)->attributes);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (as_function(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  Py_CLEAR(as_function(self)->region);
  Py_TYPE(self)->tp_free(self);
}

// Becomes a method when it is looked up in a class, like a function.
PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* describe(PyObject* self) {
  return PyUnicode_FromFormat("<%R of %R>", as_function(self)->region, as_function(self)->function);
}

// Pickled by name, like functions: a spawned worker imports the same module.
PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

PyMemberDef members[] = {
    {"_is_timed", T_BOOL, offsetof(RegionFunction, is_timed), 0, nullptr},
    {"_is_last", T_BOOL, offsetof(RegionFunction, is_last), 0, nullptr},
    {},
};

PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {},
};

PyGetSetDef attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {},
};

}  // namespace

PyTypeObject region_function_type = {
    .ob_base = kTypeHead,
    .tp_name = "millrace.trace.RegionFunction",
    .tp_basicsize = sizeof(RegionFunction),
    .tp_dealloc = destroy,
    .tp_vectorcall_offset = offsetof(RegionFunction, vectorcall),
    .tp_repr = describe,
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc = "A function each of whose calls is a region. `__wrapped__` is the function itself.",
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_weaklistoffset = offsetof(RegionFunction, weak_references),
    .tp_methods = methods,
    .tp_members = members,
    .tp_getset = attributes,
    .tp_descr_get = bind,
    .tp_dictoffset = offsetof(RegionFunction, attributes),
    .tp_new = make,
};

}  // namespace millrace::python
