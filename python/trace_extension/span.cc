#include "method.h"
#include "region.h"

namespace millrace::python {

namespace {

struct Span {
  PyObject ob_base;
  Region* region;  // owned; null: ended, or not recorded
  Begun begun;
};

Span* as_span(PyObject* object) { return reinterpret_cast<Span*>(object); }

void finish(PyObject* self, PyObject* exception_type) {
  Span* span = as_span(self);
  Region* region = span->region;
  if (region == nullptr) return;
  span->region = nullptr;
  end_region(region->what, span->begun, exception_type);
  Py_DECREF(region);
}

PyObject* end(PyObject* self, PyObject*) {
  finish(self, nullptr);
  Py_RETURN_NONE;
}

PyObject* enter(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* leave(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  finish(self, count > 0 && arguments[0] != Py_None ? arguments[0] : nullptr);
  Py_RETURN_NONE;
}

// A span that was never ended is not recorded: its end is unknown.
void destroy(PyObject* self) {
  Py_XDECREF(as_span(self)->region);
  PyObject_Free(self);
}

PyMethodDef methods[] = {
    {"end", end, METH_NOARGS, "Ends and records the run. A second call does nothing."},
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", as_method(leave), METH_FASTCALL, nullptr},
    {},
};

}  // namespace

PyObject* begin_span(Region* region) {
  auto* span = PyObject_New(Span, &span_type);
  if (span == nullptr) return nullptr;
  span->region = nullptr;
  if (is_recording()) {
    Py_INCREF(region);
    span->region = region;
    span->begun = begin_region(region->what);
  }
  return &span->ob_base;
}

PyTypeObject span_type = {
    .ob_base = kTypeHead,
    .tp_name = "millrace.trace.Span",
    .tp_basicsize = sizeof(Span),
    .tp_dealloc = destroy,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc =
        "A run of a region. It may end on another thread than it began on, or in a forked child.\n"
        "A run that never ends is not recorded.",
    .tp_methods = methods,
};

}  // namespace millrace::python
