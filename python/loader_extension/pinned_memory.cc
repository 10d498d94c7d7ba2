#include "loader_extension/pinned_memory.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <utility>

namespace millrace::python {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr int kSuccess = 0;
constexpr int kNotReady = 600;
constexpr unsigned kPortable = 1;          // CU_MEMHOSTREGISTER_PORTABLE: pinned for every GPU
constexpr unsigned kSleepsAndUntimed = 3;  // CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING

struct CudaContext;
struct CudaEvent;

// The functions of the driver; load_driver() has their exported names.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*get_device)(int*, int) = nullptr;
  int (*retain_context)(CudaContext**, int) = nullptr;
  int (*push_context)(CudaContext*) = nullptr;
  int (*pop_context)(CudaContext**) = nullptr;
  int (*synchronize)() = nullptr;
  int (*pin)(void*, size_t, unsigned) = nullptr;
  int (*unpin)(void*) = nullptr;
  int (*create_event)(CudaEvent**, unsigned) = nullptr;
  int (*query_event)(CudaEvent*) = nullptr;
  int (*wait_for_event)(CudaEvent*) = nullptr;
  int (*destroy_event)(CudaEvent*) = nullptr;
  int (*record_context)(CudaContext*, CudaEvent*) = nullptr;  // since CUDA 12.5; null before
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

Result<Driver> load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(Errc::kUnsupported,
                "pinned memory needs the CUDA driver, but it cannot be loaded: {}; give "
                "pin_memory=False",
                dlerror());
  }
  Driver driver;
  const bool is_complete = find(library, "cuInit", driver.init) &&
                           find(library, "cuDeviceGet", driver.get_device) &&
                           find(library, "cuDevicePrimaryCtxRetain", driver.retain_context) &&
                           find(library, "cuCtxPushCurrent_v2", driver.push_context) &&
                           find(library, "cuCtxPopCurrent_v2", driver.pop_context) &&
                           find(library, "cuCtxSynchronize", driver.synchronize) &&
                           find(library, "cuMemHostRegister_v2", driver.pin) &&
                           find(library, "cuMemHostUnregister", driver.unpin) &&
                           find(library, "cuEventCreate", driver.create_event) &&
                           find(library, "cuEventQuery", driver.query_event) &&
                           find(library, "cuEventSynchronize", driver.wait_for_event) &&
                           find(library, "cuEventDestroy_v2", driver.destroy_event);
  if (!is_complete) {
    return fail(Errc::kUnsupported,
                "the CUDA driver libcuda.so.1 lacks a function that pinned memory needs; install "
                "CUDA 11 or newer, or give pin_memory=False");
  }
  static_cast<void>(find(library, "cuCtxRecordEvent", driver.record_context));
  return driver;
}

// A GPU and its driver. Once CUDA has shut down, for example at the end of the program, the
// functions fail. Nothing is pinned or in flight then.
struct Gpu {
  Driver driver;
  CudaContext* context = nullptr;
};

// Makes the GPU current on this thread, and restores the previous one on destruction.
class Current {
 public:
  explicit Current(const Gpu& gpu)
      : gpu_(gpu), is_set_(gpu.driver.push_context(gpu.context) == kSuccess) {}
  ~Current() {
    CudaContext* popped = nullptr;
    if (is_set_) gpu_.driver.pop_context(&popped);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  bool is_set() const { return is_set_; }

 private:
  const Gpu& gpu_;
  const bool is_set_;
};

// Covers all work that the GPU was given before the fence was made, on all streams.
class GpuFence : public loader::pipeline::Fence {
 public:
  explicit GpuFence(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) {
    const Driver& driver = gpu_->driver;
    const Current current(*gpu_);
    if (driver.record_context == nullptr) return;
    if (driver.create_event(&event_, kSleepsAndUntimed) != kSuccess) return;
    if (driver.record_context(gpu_->context, event_) == kSuccess) return;
    driver.destroy_event(event_);
    event_ = nullptr;
  }

  ~GpuFence() override {
    if (event_ != nullptr) gpu_->driver.destroy_event(event_);
  }

  bool is_over() const override {
    return event_ != nullptr && gpu_->driver.query_event(event_) != kNotReady;
  }

  // Without an event, this waits for all work that the GPU has been given by now.
  void wait() const override {
    if (event_ != nullptr) {
      gpu_->driver.wait_for_event(event_);
      return;
    }
    const Current current(*gpu_);
    if (current.is_set()) gpu_->driver.synchronize();
  }

 private:
  std::shared_ptr<const Gpu> gpu_;
  CudaEvent* event_ = nullptr;
};

bool pin(const Gpu& gpu, void* memory, size_t size_bytes) {
  const Current current(gpu);
  return current.is_set() && gpu.driver.pin(memory, size_bytes, kPortable) == kSuccess;
}

void unpin(const Gpu& gpu, void* memory) {
  const Current current(gpu);
  if (current.is_set()) gpu.driver.unpin(memory);
}

void* allocate(const Pinning& pinning, size_t size_bytes) {
  const size_t pages_bytes = (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  void* const memory = std::aligned_alloc(kPageBytes, pages_bytes);
  if (memory == nullptr || pinning.pin(memory, pages_bytes)) return memory;
  std::free(memory);
  return nullptr;
}

}  // namespace

Result<Pinning> pinning(int device) {
  auto gpu = std::make_shared<Gpu>();
  ASSIGN_OR_RETURN(gpu->driver, load_driver());
  const Driver& driver = gpu->driver;
  int handle = 0;
  if (driver.init(0) != kSuccess || driver.get_device(&handle, device) != kSuccess ||
      driver.retain_context(&gpu->context, handle) != kSuccess) {
    return fail(Errc::kUnsupported, "GPU {} cannot be used to pin memory; give pin_memory=False",
                device);
  }
  return Pinning{
      .pin = [gpu](void* memory, size_t size_bytes) { return pin(*gpu, memory, size_bytes); },
      .unpin = [gpu](void* memory) { unpin(*gpu, memory); },
      .fence = [gpu] { return std::make_unique<GpuFence>(gpu); }};
}

Result<loader::pipeline::MemoryHooks> pinned_memory(int device) {
  ASSIGN_OR_RETURN(const Pinning pinning, python::pinning(device));
  return loader::pipeline::MemoryHooks{
      .allocate = [pinning](size_t size_bytes) { return allocate(pinning, size_bytes); },
      .free =
          [unpin = pinning.unpin](void* memory, size_t) {
            unpin(memory);
            std::free(memory);
          },
      .fence = pinning.fence};
}

}  // namespace millrace::python
