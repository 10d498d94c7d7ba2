// What the tables of CPython ask for and C++ does not give without words.
#pragma once

#include <Python.h>

namespace millrace::python {

using KeywordFunction = PyObject* (*)(PyObject*, PyObject*, PyObject*);
using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
using FastKeywordFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

// The table has one type for functions of several signatures; the flags tell which it is. The cast
// goes by way of void(), which the compiler knows to be meant.
inline PyCFunction as_method(KeywordFunction function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
inline PyCFunction as_method(FastFunction function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
inline PyCFunction as_method(FastKeywordFunction function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// How a static type begins: one reference, its type filled in by PyType_Ready.
inline constexpr PyVarObject kTypeHead = {PyObject_HEAD_INIT(nullptr) 0};

}  // namespace millrace::python
