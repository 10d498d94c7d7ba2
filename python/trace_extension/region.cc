#include "region.h"

#include <cstddef>

#include "method.h"
#include "tags.h"

namespace millrace::python {

namespace {

Region* as_region(PyObject* object) { return reinterpret_cast<Region*>(object); }

// ---- the stack of entries -----------------------------------------------------------------------

bool grow(Region* region) {
  const uint32_t capacity = region->entry_capacity * 4;
  auto* entries = static_cast<Entry*>(PyMem_Malloc(capacity * sizeof(Entry)));
  if (entries == nullptr) return false;
  memcpy(static_cast<void*>(entries), region->entries, region->entry_count * sizeof(Entry));
  if (region->entries != region->first) PyMem_Free(region->entries);
  region->entries = entries;
  region->entry_capacity = capacity;
  return true;
}

// The innermost entry of this thread. If it has none, the `with` was entered on another thread: the
// innermost of all.
uint32_t find_entry(const Region* region, pthread_t owner) {
  const uint32_t last = region->entry_count - 1;
  for (uint32_t i = last + 1; i > 0; --i) {
    if (pthread_equal(region->entries[i - 1].owner, owner) != 0) return i - 1;
  }
  return last;
}

PyObject* enter(PyObject* self, PyObject*) {
  Region* region = as_region(self);
  if (is_recording()) {
    if (region->entry_count == region->entry_capacity && !grow(region)) return PyErr_NoMemory();
    Entry& entry = region->entries[region->entry_count++];
    entry.owner = pthread_self();
    entry.begun = begin_region(region->what);
  }
  return Py_NewRef(self);
}

PyObject* leave(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  Region* region = as_region(self);
  if (region->entry_count == 0) Py_RETURN_NONE;  // nothing was being recorded when it was entered
  const uint32_t index = find_entry(region, pthread_self());
  const Begun begun = region->entries[index].begun;
  for (uint32_t i = index + 1; i < region->entry_count; ++i) {
    region->entries[i - 1] = region->entries[i];
  }
  --region->entry_count;
  const bool failed = count > 0 && arguments[0] != Py_None;
  end_region(region->what, begun, failed ? arguments[0] : nullptr);
  Py_RETURN_NONE;
}

// ---- decorators ---------------------------------------------------------------------------------

// Python code decides how to wrap the function: plain, generator or coroutine.
PyObject* decorate(PyObject* region, PyObject* function) {
  PyObject* module = PyImport_ImportModule("millrace.trace._functions");
  if (module == nullptr) return nullptr;
  PyObject* wrapped = PyObject_CallMethod(module, "decorate", "OO", region, function);
  Py_DECREF(module);
  return wrapped;
}

// @trace.region without arguments: the region has the function's name.
PyObject* decorate_bare(PyObject* function) {
  PyObject* name = PyObject_GetAttrString(function, "__qualname__");
  if (name == nullptr || !PyUnicode_Check(name)) {
    PyErr_Clear();
    Py_XSETREF(name, PyUnicode_FromString(Py_TYPE(function)->tp_name));
    if (name == nullptr) return nullptr;
  }
  Region* region = make_region(name, nullptr, nullptr);
  Py_DECREF(name);
  if (region == nullptr) return nullptr;
  PyObject* wrapped = decorate(&region->ob_base, function);
  Py_DECREF(region);
  return wrapped;
}

PyObject* call(PyObject* self, PyObject* arguments, PyObject* keywords) {
  PyObject* function = nullptr;
  if (keywords != nullptr && PyDict_GET_SIZE(keywords) != 0) {
    PyErr_SetString(PyExc_TypeError,
                    "a region takes its tags before it decorates a function: use "
                    "region(\"name\", key=value)");
    return nullptr;
  }
  if (!PyArg_ParseTuple(arguments, "O:region", &function)) return nullptr;
  return decorate(self, function);
}

// ---- the object ---------------------------------------------------------------------------------

PyObject* construct(PyObject*, PyObject* const* arguments, size_t flags, PyObject* keywords) {
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (count == 1 && PyUnicode_Check(arguments[0])) {
    return reinterpret_cast<PyObject*>(make_region(arguments[0], arguments + 1, keywords));
  }
  // A classmethod is not callable until it is bound.
  if (count == 1 && keywords == nullptr &&
      (PyCallable_Check(arguments[0]) != 0 || Py_IS_TYPE(arguments[0], &PyClassMethod_Type))) {
    return decorate_bare(arguments[0]);
  }
  PyErr_SetString(PyExc_TypeError,
                  "region() takes a name (a str) and tags (key=value) or, as a decorator without "
                  "arguments, a function");
  return nullptr;
}

void destroy(PyObject* self) {
  Region* region = as_region(self);
  free_tags(region);
  Py_XDECREF(region->what.name);
  if (region->entries != region->first) PyMem_Free(region->entries);
  PyObject_Free(self);
}

PyObject* tags_of(PyObject* self, void*) {
  const Region* region = as_region(self);
  PyObject* tags = PyDict_New();
  if (tags == nullptr || region->tag_names == nullptr) return tags;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(region->tag_names); ++i) {
    PyObject* key = PyTuple_GET_ITEM(region->tag_names, i);
    if (PyDict_SetItem(tags, key, region->tag_values[i]) < 0) {
      Py_DECREF(tags);
      return nullptr;
    }
  }
  return tags;
}

PyObject* name_of(PyObject* self, void*) { return Py_NewRef(as_region(self)->what.name); }

PyObject* describe(PyObject* self) {
  PyObject* tags = tags_of(self, nullptr);
  if (tags == nullptr) return nullptr;
  PyObject* text = PyDict_GET_SIZE(tags) == 0
                       ? PyUnicode_FromFormat("region(%R)", as_region(self)->what.name)
                       : PyUnicode_FromFormat("region(%R, **%R)", as_region(self)->what.name, tags);
  Py_DECREF(tags);
  return text;
}

// A copy is a new region with the same description. Runs in progress stay with the original.
PyObject* reduce(PyObject* self, PyObject*) {
  PyObject* module = PyImport_ImportModule("millrace._trace");
  if (module == nullptr) return nullptr;
  PyObject* restore = PyObject_GetAttrString(module, "_restore_region");
  Py_DECREF(module);
  if (restore == nullptr) return nullptr;
  PyObject* tags = tags_of(self, nullptr);
  if (tags == nullptr) {
    Py_DECREF(restore);
    return nullptr;
  }
  return Py_BuildValue("N(ON)", restore, as_region(self)->what.name, tags);
}

PyObject* begin(PyObject* self, PyObject*) { return begin_span(as_region(self)); }

PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, nullptr},
    {"__exit__", as_method(leave), METH_FASTCALL, nullptr},
    {"begin", begin, METH_NOARGS,
     "Begins a run of the region and returns it. Call its end() on any thread."},
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {},
};

PyGetSetDef attributes[] = {
    {"name", name_of, nullptr, "The region's name.", nullptr},
    {"tags", tags_of, nullptr, "Its tags, epoch and step, as a new dict.", nullptr},
    {},
};

}  // namespace

Region* make_region(PyObject* name, PyObject* const* values, PyObject* keywords) {
  auto* region = PyObject_New(Region, &region_type);
  if (region == nullptr) return nullptr;
  region->what = {};
  region->what.name = Py_NewRef(name);
  region->tag_names = nullptr;
  region->tag_values = nullptr;
  region->entries = region->first;
  region->entry_count = 0;
  region->entry_capacity = sizeof region->first / sizeof region->first[0];
  if (recorder != nullptr) region->what.name_id = cached_name(name);
  if (keywords != nullptr && !take_keywords(region, values, keywords)) {
    Py_DECREF(region);
    return nullptr;
  }
  return region;
}

bool read_count(PyObject* value, const char* what, uint64_t max, uint64_t none, uint64_t& count) {
  if (value == Py_None) {
    count = none;
    return true;
  }
  if (PyLong_CheckExact(value)) {
    count = PyLong_AsUnsignedLongLong(value);
  } else {
    PyObject* integer = PyNumber_Index(value);
    count = integer != nullptr ? PyLong_AsUnsignedLongLong(integer) : 0;
    Py_XDECREF(integer);
  }
  if (PyErr_Occurred() == nullptr && count <= max) return true;
  if (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_OverflowError)) {
    PyErr_Format(PyExc_ValueError, "%s is %R, but must be from 0 to %llu, or None", what, value,
                 static_cast<unsigned long long>(max));
  }
  return false;
}

PyTypeObject region_type = {
    .ob_base = kTypeHead,
    .tp_name = "millrace.trace.region",
    .tp_basicsize = sizeof(Region),
    .tp_dealloc = destroy,
    .tp_repr = describe,
    .tp_call = call,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc =
        "A named interval with tags, which `millrace trace` records.\n\n"
        "    with trace.region(\"fetch\", epoch=1, step=2, file=\"x\"):\n"
        "        ...\n\n"
        "    @trace.region                   # named after the function\n"
        "    @trace.region(\"decode\", kind=\"jpeg\")\n"
        "    def decode(data): ...\n\n"
        "The object can be kept and entered again, nested and by several threads. This is the\n"
        "fastest way: names and tags are looked up only when it is made.\n\n"
        "    fetch = trace.region(\"fetch\")\n"
        "    for index in order:\n"
        "        with fetch:\n"
        "            ...\n",
    .tp_methods = methods,
    .tp_getset = attributes,
    .tp_vectorcall = construct,
};

}  // namespace millrace::python
