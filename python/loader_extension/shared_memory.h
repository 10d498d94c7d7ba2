// SharedMemory: batches in a memory file, which worker processes map.
//
// Workers only get the position of a batch in the file. The file has no name, so nothing is left
// however the processes end. A position always belongs to a buffer of the same size, so a worker
// may keep a buffer mapped. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "loader/pipeline/batch_memory.h"

namespace millrace::python {

// A file without a name, in memory, that processes can share. If the kernel refuses memfd_create,
// as seccomp profiles of containers may, it is in /dev/shm, whose size is limited: then reserve
// room before you write, because a write without room ends the process.
Result<int> shared_file(const char* name);
Status reserve_room(int file, uint64_t offset, uint64_t size_bytes);

class SharedMemory {
 public:
  struct Place {
    uint64_t buffer_begin = 0;  // in the file; a multiple of the page size
    uint64_t buffer_bytes = 0;
    uint64_t offset = 0;  // in the buffer
  };

  static Result<std::shared_ptr<SharedMemory>> create();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  int file() const { return file_; }

  // Nullopt: these bytes are not all in one buffer of this memory.
  std::optional<Place> find(const void* bytes, size_t size_bytes) const;

  // Hooks that allocate batches here, and share its ownership: a batch may outlive the loader.
  static loader::pipeline::MemoryHooks hooks(const std::shared_ptr<SharedMemory>& memory);

 private:
  explicit SharedMemory(int file) : file_(file) {}

  void* allocate(size_t size_bytes);
  void free(void* buffer, size_t size_bytes);
  std::optional<uint64_t> take_room(size_t size_bytes) REQUIRES(mutex_);

  const int file_;
  mutable Mutex mutex_;
  struct Buffer {
    uint64_t begin = 0;
    uint64_t size_bytes = 0;
  };
  std::map<uintptr_t, Buffer> buffers_ GUARDED_BY(mutex_);  // by address
  // By size: where a freed buffer began.
  std::multimap<uint64_t, uint64_t> unused_ GUARDED_BY(mutex_);
  uint64_t end_ GUARDED_BY(mutex_) = 0;  // of the file
};

}  // namespace millrace::python
