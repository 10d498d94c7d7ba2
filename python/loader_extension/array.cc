#include "loader_extension/array.h"

namespace millrace::python {
namespace {

using data::ElementType;

struct TypeCodes {
  const char* buffer;  // of Python's struct module
  uint8_t dlpack;
};

TypeCodes codes_of(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return {"B", kDLUInt};
    case ElementType::kI8:
      return {"b", kDLInt};
    case ElementType::kU16:
      return {"H", kDLUInt};
    case ElementType::kI16:
      return {"h", kDLInt};
    case ElementType::kU32:
      return {"I", kDLUInt};
    case ElementType::kI32:
      return {"i", kDLInt};
    case ElementType::kU64:
      return {"Q", kDLUInt};
    case ElementType::kI64:
      return {"q", kDLInt};
    case ElementType::kF16:
      return {"e", kDLFloat};
    case ElementType::kBf16:
      return {nullptr, kDLBfloat};
    case ElementType::kF32:
      return {"f", kDLFloat};
    case ElementType::kF64:
      return {"d", kDLFloat};
    case ElementType::kBool:
      return {"?", kDLBool};
  }
  return {nullptr, kDLUInt};
}

// Owns the shape that the tensor points to, and the memory.
struct Holder {
  DLManagedTensor tensor{};
  std::vector<int64_t> shape;
  std::shared_ptr<const void> memory;
};

}  // namespace

size_t Array::size_bytes() const {
  size_t size = data::element_bytes(type);
  for (const int64_t length : shape) size *= static_cast<size_t>(length);
  return size;
}

std::vector<int64_t> Array::strides_bytes() const {
  std::vector<int64_t> strides(shape.size());
  auto stride = static_cast<int64_t>(data::element_bytes(type));
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

const char* Array::buffer_format() const { return codes_of(type).buffer; }

DLManagedTensor* make_dlpack(const Array& array) {
  auto holder = std::make_unique<Holder>();
  holder->shape = array.shape;
  holder->memory = array.memory;
  holder->tensor = {
      .dl_tensor = {.data = array.elements,
                    .device = {kDLCPU, 0},
                    .ndim = static_cast<int32_t>(holder->shape.size()),
                    .dtype = {codes_of(array.type).dlpack,
                              static_cast<uint8_t>(data::element_bytes(array.type) * 8), 1},
                    .shape = holder->shape.data(),
                    .strides = nullptr,
                    .byte_offset = 0},
      .manager_ctx = holder.get(),
      .deleter = [](DLManagedTensor* self) { delete static_cast<Holder*>(self->manager_ctx); }};
  return &holder.release()->tensor;
}

}  // namespace millrace::python
