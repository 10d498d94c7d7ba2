#include <cstddef>

#include "method.h"
#include "region.h"

namespace millrace::python {

namespace {

// Whether this thread is inside a call of any Outermost. All are one group, so that a model in a
// model, or a transform in a transform, is not recorded twice.
thread_local bool is_inside = false;

struct Outermost {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  PyObject* function;
  PyObject* around;
  PyObject* attributes;
};

Outermost* as_outermost(PyObject* object) { return reinterpret_cast<Outermost*>(object); }

constexpr size_t kArgumentsMax = 32;  // a call with more is not marked

// around(function, *arguments, **keywords)
PyObject* call_around(const Outermost* self, PyObject* const* arguments, size_t count,
                      size_t positional, PyObject* keywords) {
  PyObject* all[kArgumentsMax + 2];
  all[0] = nullptr;  // vectorcall may use this slot
  all[1] = self->function;
  for (size_t i = 0; i < count; ++i) all[i + 2] = arguments[i];
  is_inside = true;
  PyObject* result = PyObject_Vectorcall(
      self->around, all + 1, (positional + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
  is_inside = false;
  return result;
}

PyObject* call(PyObject* object, PyObject* const* arguments, size_t flags, PyObject* keywords) {
  const Outermost* self = as_outermost(object);
  const auto positional = static_cast<size_t>(PyVectorcall_NARGS(flags));
  const size_t count =
      positional + (keywords != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0);
  if (is_inside || count > kArgumentsMax || !is_recording()) {
    return PyObject_Vectorcall(self->function, arguments, flags, keywords);
  }
  return call_around(self, arguments, count, positional, keywords);
}

PyObject* make(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject* function = nullptr;
  PyObject* around = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO:_Outermost", &function, &around)) return nullptr;
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  as_outermost(object)->vectorcall = call;
  as_outermost(object)->function = Py_NewRef(function);
  as_outermost(object)->around = Py_NewRef(around);
  return object;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_outermost(self)->function);
  Py_VISIT(as_outermost(self)->around);
  Py_VISIT(as_outermost(self)->attributes);
  return 0;
}

int clear(PyObject* self) {
  Py_CLEAR(as_outermost(self)->function);
  Py_CLEAR(as_outermost(self)->around);
  Py_CLEAR(as_outermost(self)->attributes);
  return 0;
}

void destroy(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear(self);
  Py_TYPE(self)->tp_free(self);
}

// Equal to the function: a library may look up `torch.Tensor.to` in a set, and PyTorch passes the
// function itself.
PyObject* wrapped(PyObject* object) {
  return Py_IS_TYPE(object, &outermost_type) ? as_outermost(object)->function : object;
}

PyObject* compare(PyObject* self, PyObject* other, int operation) {
  return PyObject_RichCompare(wrapped(self), wrapped(other), operation);
}

Py_hash_t hash(PyObject* self) { return PyObject_Hash(as_outermost(self)->function); }

PyObject* bind(PyObject* self, PyObject* object, PyObject*) {
  if (object == nullptr || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyGetSetDef attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {},
};

}  // namespace

PyTypeObject outermost_type = {
    .ob_base = kTypeHead,
    .tp_name = "millrace._trace._Outermost",
    .tp_basicsize = sizeof(Outermost),
    .tp_dealloc = destroy,
    .tp_vectorcall_offset = offsetof(Outermost, vectorcall),
    .tp_hash = hash,
    .tp_call = PyVectorcall_Call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_doc =
        "_Outermost(function, around): calls around(function, *arguments) for the outermost call\n"
        "and function(*arguments) for calls inside it, which cost a few nanoseconds.",
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_richcompare = compare,
    .tp_getset = attributes,
    .tp_descr_get = bind,
    .tp_dictoffset = offsetof(Outermost, attributes),
    .tp_new = make,
};

}  // namespace millrace::python
