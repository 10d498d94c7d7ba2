// Array: elements in memory that somebody keeps alive, as Python sees them. Knows no Python.
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
  std::shared_ptr<const void> memory;  // what they lie in; shared with the batch and its tensors

  size_t size_bytes() const;
  std::vector<int64_t> strides_bytes() const;  // C order
  const char* buffer_format() const;           // as Python's struct says it; null: it has none
};

// A tensor that shares the array's memory. Whoever takes it calls its deleter, on any thread.
DLManagedTensor* make_dlpack(const Array& array);

}  // namespace millrace::python
