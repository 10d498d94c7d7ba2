// Pinned memory: batches that a GPU copies from by itself, while the program goes on.
//
// By the functions of CUDA's driver, which torch has loaded: nothing is linked. The copies are
// torch's, on streams that are not told to us, so a buffer that comes back is fenced by all that
// the GPU was given until then.
#pragma once

#include "base/result.h"
#include "loader/pipeline/batch_memory.h"

namespace millrace::python {

// For the GPU with this number, as CUDA counts them in this process.
Result<loader::MemoryHooks> pinned_memory(int device);

}  // namespace millrace::python
