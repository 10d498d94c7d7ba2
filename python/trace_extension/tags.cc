#include "tags.h"

#include <cstring>

namespace millrace::python {

namespace {

constexpr Py_ssize_t kTagsMax = 64;  // the limit of the recorder

// Converts the value to an int, float or str; a new reference, or null.
PyObject* plain_value(PyObject* value) {
  if (PyUnicode_Check(value) || PyFloat_Check(value) || PyLong_CheckExact(value)) {
    return Py_NewRef(value);
  }
  if (PyIndex_Check(value)) return PyNumber_Index(value);  // numpy's integers, and bool
  PyNumberMethods* number = Py_TYPE(value)->tp_as_number;
  if (number != nullptr && number->nb_float != nullptr) return PyNumber_Float(value);
  if (PyBytes_Check(value))
    return PyUnicode_DecodeFSDefaultAndSize(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
  return PyObject_Str(value);
}

millrace_tag make_tag(PyObject* key, PyObject* value) {
  millrace_tag tag{cached_name(key), MILLRACE_TAG_TEXT, 0};
  if (PyLong_Check(value)) {
    int overflow = 0;
    const long long integer = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) return {tag.key, MILLRACE_TAG_INTEGER, static_cast<uint64_t>(integer)};
    PyObject* digits = PyObject_Str(value);  // integers of more than 64 bits are kept as text
    tag.value = digits != nullptr ? find_name(digits) : 0;
    Py_XDECREF(digits);
    PyErr_Clear();
  } else if (PyFloat_Check(value)) {
    const double number = PyFloat_AS_DOUBLE(value);
    tag.kind = MILLRACE_TAG_NUMBER;
    memcpy(&tag.value, &number, sizeof number);
  } else {
    tag.value = find_name(value);
  }
  return tag;
}

// 1: the keyword is epoch or step, so not a tag. 0: it is a tag. -1: an exception is set.
int take_field(Description& what, PyObject* key, PyObject* value) {
  if (PyUnicode_CompareWithASCIIString(key, "epoch") == 0) {
    uint64_t epoch = 0;
    if (!read_count(value, "epoch", MILLRACE_NO_EPOCH - 1, MILLRACE_NO_EPOCH, epoch)) return -1;
    what.epoch = static_cast<uint32_t>(epoch);
    return 1;
  }
  if (PyUnicode_CompareWithASCIIString(key, "step") == 0) {
    return read_count(value, "step", MILLRACE_NO_STEP - 1, MILLRACE_NO_STEP, what.step) ? 1 : -1;
  }
  return 0;
}

bool reserve(Region* region, Py_ssize_t count) {
  const auto size = static_cast<size_t>(count);
  region->what.tags = static_cast<millrace_tag*>(PyMem_Calloc(size, sizeof(millrace_tag)));
  region->tag_values = static_cast<PyObject**>(PyMem_Calloc(size, sizeof(PyObject*)));
  if (region->what.tags != nullptr && region->tag_values != nullptr) return true;
  PyErr_NoMemory();
  return false;
}

}  // namespace

bool take_keywords(Region* region, PyObject* const* values, PyObject* keywords) {
  const Py_ssize_t count = PyTuple_GET_SIZE(keywords);
  if (count > kTagsMax) {
    PyErr_Format(PyExc_ValueError, "a region keeps %zd tags, but %zd were given", kTagsMax, count);
    return false;
  }
  if (!reserve(region, count)) return false;
  Py_INCREF(keywords);
  region->tag_names = keywords;
  Description& what = region->what;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keywords, i);
    const int is_field = take_field(what, key, values[i]);
    if (is_field < 0) return false;
    PyObject* value = is_field == 0 ? plain_value(values[i]) : Py_NewRef(values[i]);
    if (value == nullptr) return false;
    region->tag_values[i] = value;
    if (is_field == 0 && recorder != nullptr) what.tags[what.tag_count++] = make_tag(key, value);
  }
  return true;
}

void free_tags(Region* region) {
  const Py_ssize_t count = region->tag_names != nullptr ? PyTuple_GET_SIZE(region->tag_names) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) Py_XDECREF(region->tag_values[i]);
  PyMem_Free(region->tag_values);
  PyMem_Free(region->what.tags);
  Py_XDECREF(region->tag_names);
}

}  // namespace millrace::python
