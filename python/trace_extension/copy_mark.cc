#include <cstddef>

#include "device.h"
#include "method.h"
#include "millrace/trace.h"
#include "recorder.h"
#include "region.h"

namespace millrace::python {

namespace {

// The `around` of an Outermost: marks Tensor.to and Tensor.cuda if they copy a tensor to the
// device.
struct CopyMark {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  PyTypeObject* tensor;
  PyTypeObject* device;
  PyObject* targets;  // a dict of devices and their names to whether they are timed; None: all are
  PyObject* otherwise;  // the `around` for calls that this one does not understand
};

CopyMark* as_mark(PyObject* object) { return reinterpret_cast<CopyMark*>(object); }

PyObject* find_keyword(PyObject* const* values, PyObject* keywords, const char* name) {
  if (keywords == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keywords); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, i), name) == 0)
      return values[i];
  }
  return nullptr;
}

bool is_timed_target(const CopyMark* self, PyObject* target) {
  if (target == nullptr || (!Py_IS_TYPE(target, self->device) && !PyUnicode_CheckExact(target))) {
    return false;
  }
  return PyDict_GetItemWithError(self->targets, target) == Py_True;
}

// An interned str, made once. Without memory for it, a name that no tensor has.
PyObject* find_str(PyObject*& made, const char* text) {
  if (made == nullptr) made = PyUnicode_InternFromString(text);
  return made != nullptr ? made : Py_None;
}

bool is_on_host(PyObject* tensor) {
  static PyObject* is_cpu = nullptr;
  PyObject* value = PyObject_GetAttr(tensor, find_str(is_cpu, "is_cpu"));
  Py_XDECREF(value);  // True and False are never freed
  return value == Py_True;
}

uint64_t take_count(PyObject* count) {
  const uint64_t value = count != nullptr ? PyLong_AsUnsignedLongLong(count) : 0;
  Py_XDECREF(count);
  return value;
}

uint64_t size_of(PyObject* tensor) {
  static PyObject* nbytes = nullptr;
  static PyObject* numel = nullptr;
  static PyObject* element_size = nullptr;
  static bool has_nbytes = true;  // PyTorch before 2.1 has not
  PyObject* size = has_nbytes ? PyObject_GetAttr(tensor, find_str(nbytes, "nbytes")) : nullptr;
  if (size != nullptr) return take_count(size);
  has_nbytes = false;
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return take_count(PyObject_CallMethodNoArgs(tensor, find_str(numel, "numel"))) *
         take_count(PyObject_CallMethodNoArgs(tensor, find_str(element_size, "element_size")));
}

// Whether `arguments` (a function, a tensor, and the arguments of the call) copy to the device.
bool is_copy(const CopyMark* self, PyObject* const* arguments, size_t count, PyObject* keywords) {
  // A subclass may be a tensor that the compiler only imagines; a parameter moves with its model.
  if (count < 2 || !Py_IS_TYPE(arguments[1], self->tensor)) return false;
  if (self->targets != Py_None) {
    PyObject* target =
        count > 2 ? arguments[2] : find_keyword(arguments + count, keywords, "device");
    if (!is_timed_target(self, target)) return false;
  }
  return is_on_host(arguments[1]);
}

PyObject* call(PyObject* object, PyObject* const* arguments, size_t flags, PyObject* keywords) {
  const CopyMark* self = as_mark(object);
  const auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
  if (count == 0) {
    PyErr_SetString(PyExc_TypeError, "_CopyMark takes the function that it is around");
    return nullptr;
  }
  if (!is_device_timed()) {
    return PyObject_Vectorcall(arguments[0], arguments + 1, count - 1, keywords);
  }
  const bool is_marked = is_copy(self, arguments, count, keywords);
  const uint64_t bytes = is_marked ? size_of(arguments[1]) : 0;
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  if (!is_marked) return PyObject_Vectorcall(self->otherwise, arguments, flags, keywords);
  static uint32_t name = 0;
  static uint32_t key = 0;
  if (name == 0) name = recorder->name(MILLRACE_COPY, sizeof MILLRACE_COPY - 1);
  if (key == 0) key = recorder->name("bytes", 5);
  millrace_tag tag{key, MILLRACE_TAG_INTEGER, bytes};
  Description what{.name_id = name, .tag_count = 1, .tags = &tag};
  const Begun begun = begin_region(what);
  const bool is_timed = enter_device(Work::kCopy);
  PyObject* result = PyObject_Vectorcall(arguments[0], arguments + 1, count - 1, keywords);
  if (is_timed) leave_device(false);
  end_region(what, begun, result == nullptr ? PyErr_Occurred() : nullptr);
  return result;
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject* tensor = nullptr;
  PyObject* device = nullptr;
  PyObject* targets = nullptr;
  PyObject* otherwise = nullptr;
  if (PyArg_ParseTuple(arguments, "O!O!OO:_CopyMark", &PyType_Type, &tensor, &PyType_Type, &device,
                       &targets, &otherwise) == 0) {
    return nullptr;
  }
  if (targets != Py_None && !PyDict_Check(targets)) {
    PyErr_SetString(PyExc_TypeError, "_CopyMark() takes a dict of targets, or None");
    return nullptr;
  }
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  CopyMark* self = as_mark(object);
  self->vectorcall = call;
  self->tensor = reinterpret_cast<PyTypeObject*>(Py_NewRef(tensor));
  self->device = reinterpret_cast<PyTypeObject*>(Py_NewRef(device));
  self->targets = Py_NewRef(targets);
  self->otherwise = Py_NewRef(otherwise);
  return object;
}

void destroy(PyObject* object) {
  CopyMark* self = as_mark(object);
  Py_CLEAR(self->tensor);
  Py_CLEAR(self->device);
  Py_CLEAR(self->targets);
  Py_CLEAR(self->otherwise);
  Py_TYPE(object)->tp_free(object);
}

}  // namespace

PyTypeObject copy_mark_type = {
    .ob_base = kTypeHead,
    .tp_name = "millrace._trace._CopyMark",
    .tp_basicsize = sizeof(CopyMark),
    .tp_dealloc = destroy,
    .tp_vectorcall_offset = offsetof(CopyMark, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_doc =
        "_CopyMark(tensor, device, targets, otherwise): around(function, *arguments) for functions\n"
        "that may copy a tensor to the device.",
    .tp_new = make,
};

}  // namespace millrace::python
