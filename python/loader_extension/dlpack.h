// DLPack: a C struct with which libraries pass tensors to each other.
//
// The layout is that of DLPack (github.com/dmlc/dlpack, the unversioned DLManagedTensor), which
// torch 1.13 to 2.x and numpy from 1.22 on accept. It is copied here because nothing else of DLPack
// is needed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::python {

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};

enum : int32_t { kDLCPU = 1 };

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

enum : uint8_t { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // null: C order
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, shape) == 24);
static_assert(sizeof(DLManagedTensor) == 64);

}  // namespace millrace::python
