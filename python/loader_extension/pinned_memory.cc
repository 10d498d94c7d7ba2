#include "loader_extension/pinned_memory.h"

#include <cstdlib>

namespace millrace::python {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr unsigned kPortable = 1;  // cudaHostRegisterPortable: pinned for every GPU

}  // namespace

loader::MemoryHooks pinned_memory(const CudaRuntime& cuda) {
  const auto set_device = reinterpret_cast<int (*)(int)>(cuda.set_device);
  const auto pin = reinterpret_cast<int (*)(void*, size_t, unsigned)>(cuda.host_register);
  const auto unpin = reinterpret_cast<int (*)(void*)>(cuda.host_unregister);
  const int device = cuda.device;
  return {.allocate = [=](size_t size_bytes) -> void* {
            const size_t pages_bytes = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
            void* memory = std::aligned_alloc(kPageBytes, pages_bytes);
            if (memory == nullptr) return nullptr;
            if (set_device(device) == 0 && pin(memory, pages_bytes, kPortable) == 0) return memory;
            std::free(memory);
            return nullptr;
          },
          .free =
              [=](void* memory, size_t) {
                // Fails where the program ends and CUDA is gone already: nothing is pinned then.
                static_cast<void>(unpin(memory));
                std::free(memory);
              }};
}

}  // namespace millrace::python
