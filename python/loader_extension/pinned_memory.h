// Pinned memory: batches that a GPU can copy asynchronously.
//
// Uses the functions of the CUDA driver, which torch has loaded; nothing is linked. torch makes the
// copies, on streams that we do not know. So a buffer that is returned is fenced against all work
// that the GPU was given until then.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/result.h"
#include "loader/pipeline/batch_memory.h"

namespace millrace::python {

struct Pinning {
  std::function<bool(void* memory, size_t size_bytes)> pin;
  std::function<void(void* memory)> unpin;
  // Covers all work that the GPU was given so far.
  std::function<std::unique_ptr<loader::pipeline::Fence>()> fence;
};

// `device`: the CUDA index of the GPU in this process.
Result<Pinning> pinning(int device);

// Memory of the heap, pinned.
Result<loader::pipeline::MemoryHooks> pinned_memory(int device);

}  // namespace millrace::python
