// Array: elements in shared memory, as Python sees them. Independent of Python.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/array.h"
#include "loader_extension/dlpack.h"

namespace millrace::python {

struct Array {
  data::ElementType type = data::ElementType::kU8;
  std::vector<int64_t> shape;
  void* elements = nullptr;
  std::shared_ptr<const void> memory;  // owns the elements; shared with the batch and its tensors

  size_t size_bytes() const;
  std::vector<int64_t> strides_bytes() const;  // C order
  const char* buffer_format() const;           // of Python's struct module; null: it has none
};

// A tensor that shares the array's memory. The receiver calls its deleter, on any thread.
DLManagedTensor* make_dlpack(const Array& array);

}  // namespace millrace::python
