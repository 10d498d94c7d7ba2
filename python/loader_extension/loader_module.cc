// The extension millrace._loader: the C++ loader with its sources and batches, for Python.
//
// The Python package is the interface for users; this layer is as thin as possible. Nothing blocks
// while it holds the GIL.
#include <pybind11/pybind11.h>

#include <cstring>

#include "base/text/units.h"
#include "loader/batch_budget.h"
#include "loader/order/order.h"
#include "loader_extension/bindings.h"

namespace millrace::python {

void raise(const Error& error, bool of_sample) {
  const std::string& message = error.message();
  PyObject* kind = PyExc_RuntimeError;
  switch (error.code()) {
    case Errc::kInvalidArgument:
      kind = PyExc_ValueError;
      break;
    case Errc::kNotFound:
      kind = PyExc_FileNotFoundError;
      break;
    case Errc::kAlreadyExists:
      kind = PyExc_FileExistsError;
      break;
    case Errc::kPermission:
      kind = PyExc_PermissionError;
      break;
    case Errc::kCorrupt:
      kind = PyExc_ValueError;
      break;
    case Errc::kIo:
      kind = PyExc_OSError;
      break;
    case Errc::kTimeout:
      kind = PyExc_TimeoutError;
      break;
    case Errc::kUnsupported:
    case Errc::kExhausted:
    case Errc::kCancelled:
      break;
  }
  const bool is_of_data = error.code() != Errc::kTimeout && error.code() != Errc::kCancelled;
  const py::str text = file_text(message);  // it may contain file names
  if (of_sample && is_of_data) {
    const py::object sample_error =
        py::module_::import("millrace.loader._errors").attr("SampleError");
    PyErr_SetObject(sample_error.ptr(), text.ptr());
  } else {
    PyErr_SetObject(kind, text.ptr());
  }
  throw py::error_already_set();
}

py::str file_text(std::string_view bytes) {
  PyObject* text =
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

Array make_array(data::ElementType type, std::vector<int64_t> shape) {
  Array array{.type = type, .shape = std::move(shape)};
  auto bytes = std::make_shared<std::vector<std::byte>>(array.size_bytes());
  array.elements = bytes->data();
  array.memory = std::shared_ptr<const void>(bytes, bytes->data());
  return array;
}

namespace {

py::buffer_info buffer_of(Array& array) {
  if (array.buffer_format() == nullptr) {
    throw py::buffer_error("Python buffers have no bfloat16; use __dlpack__");
  }
  return {array.elements,
          static_cast<py::ssize_t>(data::element_bytes(array.type)),
          array.buffer_format(),
          static_cast<py::ssize_t>(array.shape.size()),
          std::vector<py::ssize_t>(array.shape.begin(), array.shape.end()),
          [&] {
            const auto strides = array.strides_bytes();
            return std::vector<py::ssize_t>(strides.begin(), strides.end());
          }()};
}

// Frees the tensor of an unused capsule. A consumer that takes the tensor renames the capsule.
void free_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;
  auto* tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  tensor->deleter(tensor);
}

py::object to_dlpack(const Array& array) {
  DLManagedTensor* tensor = make_dlpack(array);
  PyObject* capsule = PyCapsule_New(tensor, "dltensor", free_capsule);
  if (capsule == nullptr) {
    tensor->deleter(tensor);
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(capsule);
}

Array row_of(const Array& array, size_t row) {
  if (array.shape.empty() || row >= static_cast<size_t>(array.shape.front())) {
    throw py::index_error("the array has no such row");
  }
  Array part = array;
  part.shape.erase(part.shape.begin());
  part.elements = static_cast<std::byte*>(array.elements) + row * part.size_bytes();
  return part;
}

void copy_from(const Array& to, const Array& from) {
  if (to.type != from.type || to.shape != from.shape) throw py::value_error("another array type");
  if (to.size_bytes() > 0) std::memcpy(to.elements, from.elements, to.size_bytes());
}

void bind_array(py::module_& module) {
  py::class_<Array>(
      module, "Array", py::buffer_protocol(),
      "Elements in the loader's memory. numpy.asarray, torch.from_dlpack and memoryview "
      "accept it, and none of them copies.")
      .def_buffer(&buffer_of)
      .def("__dlpack__",
           [](const Array& array, const py::args&, const py::kwargs&) { return to_dlpack(array); })
      .def("__dlpack_device__",
           [](const Array&) { return py::make_tuple(static_cast<int32_t>(kDLCPU), 0); })
      .def("as_bytes",
           [](const Array& array) {
             Array bytes = array;
             bytes.shape.push_back(static_cast<int64_t>(data::element_bytes(array.type)));
             if (bytes.shape.back() == 1) bytes.shape.pop_back();
             bytes.type = data::ElementType::kU8;
             return bytes;
           })
      .def_property_readonly("dtype",
                             [](const Array& array) { return data::element_name(array.type); })
      .def_property_readonly("shape",
                             [](const Array& array) {
                               py::tuple shape(array.shape.size());
                               for (size_t i = 0; i < array.shape.size(); ++i) {
                                 shape[i] = array.shape[i];
                               }
                               return shape;
                             })
      .def_property_readonly(
          "address", [](const Array& array) { return reinterpret_cast<uintptr_t>(array.elements); })
      .def("__len__",
           [](const Array& array) {
             if (array.shape.empty()) throw py::type_error("an array without axes has no length");
             return array.shape.front();
           })
      .def("copy_from", &copy_from, "Overwrites the elements with those of an equal array.")
      .def("row", &row_of, "One row of the first axis, in the same memory.")
      .def("tolist", [](const py::object& self) { return py::memoryview(self).attr("tolist")(); })
      .def("__repr__", [](const py::object& self) {
        return py::str("Array({}, {})").format(self.attr("dtype"), self.attr("shape"));
      });
}

}  // namespace

PYBIND11_MODULE(_loader, module) {
  module.doc() = "The C++ loader. Use it through the package millrace.loader.";
  bind_array(module);
  bind_sources(module);
  bind_drawing(module);
  bind_batch(module);
  bind_loader(module);
  bind_exchange(module);
  module.def("batch_budget", [] { return loader::batch_budget_bytes(); });
  module.def("parse_size", [](const std::string& text) { return take(parse_bytes(text)); });
}

}  // namespace millrace::python
