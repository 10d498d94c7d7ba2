// Conversions for CPython's tables that C++ does not do implicitly.
#pragma once

#include <Python.h>

namespace millrace::python {

using KeywordFunction = PyObject* (*)(PyObject*, PyObject*, PyObject*);
using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);
using FastKeywordFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

// The table has one type for functions of several signatures; its flags say which one it is. The
// cast goes through void(), which the compiler accepts as intended.
inline PyCFunction as_method(KeywordFunction function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
inline PyCFunction as_method(FastFunction function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
inline PyCFunction as_method(FastKeywordFunction function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// The head of a static type: one reference; PyType_Ready fills in the type.
inline constexpr PyVarObject kTypeHead = {PyObject_HEAD_INIT(nullptr) 0};

}  // namespace millrace::python
