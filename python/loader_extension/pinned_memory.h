// Pinned memory: batches that a GPU copies from by itself, while the program goes on.
//
// CUDA's runtime is torch's own, found by Python among the libraries that are loaded: none is
// linked.
#pragma once

#include <cstdint>

#include "loader/pipeline/batch_memory.h"

namespace millrace::python {

// Addresses of functions of CUDA's runtime.
struct CudaRuntime {
  uintptr_t set_device = 0;       // int cudaSetDevice(int)
  uintptr_t host_register = 0;    // int cudaHostRegister(void*, size_t, unsigned)
  uintptr_t host_unregister = 0;  // int cudaHostUnregister(void*)
  int device = 0;                 // whose: a thread without one would open another GPU
};

loader::MemoryHooks pinned_memory(const CudaRuntime& cuda);

}  // namespace millrace::python
