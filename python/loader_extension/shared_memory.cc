#include "loader_extension/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/concurrency/mutex.h"

namespace millrace::python {
namespace {

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, since Linux 5.14
constexpr const char* kMemoryDirectory = "/dev/shm";

}  // namespace

Result<int> shared_file(const char* name) {
  const int in_memory = memfd_create(name, MFD_CLOEXEC);
  if (in_memory >= 0) return in_memory;
  const int refusal = errno;
  const int unnamed = open(kMemoryDirectory, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
  if (unnamed >= 0) return unnamed;
  return fail(Errc::kUnsupported,
              "worker processes share memory in a file, but memfd_create failed ({}), and so did a "
              "file in {} ({}). Allow memfd_create in the container's seccomp profile, mount a "
              "tmpfs on {}, or load with threads (worker='thread')",
              std::strerror(refusal), kMemoryDirectory, std::strerror(errno), kMemoryDirectory);
}

Status reserve_room(int file, uint64_t offset, uint64_t size_bytes) {
  struct statvfs system = {};
  // A memfd is in a file system of the kernel that has no size.
  if (fstatvfs(file, &system) != 0 || system.f_blocks == 0) return {};
  int failure = EINTR;
  while (failure == EINTR) {
    failure = posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(size_bytes));
  }
  if (failure != ENOSPC) return {};
  return fail(Errc::kExhausted,
              "{} is full: worker processes share memory in a file there, because memfd_create is "
              "refused. Make it larger (docker run --shm-size=8g), allow memfd_create in the "
              "container's seccomp profile, or load with threads (worker='thread')",
              kMemoryDirectory);
}

Result<std::shared_ptr<SharedMemory>> SharedMemory::create() {
  ASSIGN_OR_RETURN(const int file, shared_file("millrace-samples"));
  return std::shared_ptr<SharedMemory>(new SharedMemory(file));
}

SharedMemory::~SharedMemory() { close(file_); }

std::optional<SharedMemory::Place> SharedMemory::find(const void* bytes, size_t size_bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(bytes);
  const MutexLock lock(mutex_);
  auto after = buffers_.upper_bound(address);
  if (after == buffers_.begin()) return std::nullopt;
  const auto& [begin, buffer] = *--after;
  const uint64_t offset = address - begin;
  if (offset > buffer.size_bytes || size_bytes > buffer.size_bytes - offset) return std::nullopt;
  return Place{buffer.begin, buffer.size_bytes, offset};
}

loader::pipeline::MemoryHooks SharedMemory::hooks(const std::shared_ptr<SharedMemory>& memory) {
  return {.allocate = [memory](size_t size_bytes) { return memory->allocate(size_bytes); },
          .free = [memory](void* buffer, size_t size_bytes) { memory->free(buffer, size_bytes); },
          .fence = {}};
}

// Room that a buffer of the same size left, or new room at the end of the file.
std::optional<uint64_t> SharedMemory::take_room(size_t size_bytes) {
  if (const auto room = unused_.find(size_bytes); room != unused_.end()) {
    const uint64_t begin = room->second;
    unused_.erase(room);
    return begin;
  }
  const uint64_t begin = end_;
  if (ftruncate(file_, static_cast<off_t>(begin + size_bytes)) != 0) return std::nullopt;
  end_ = begin + size_bytes;
  return begin;
}

void* SharedMemory::allocate(size_t size_bytes) {
  const MutexLock lock(mutex_);
  const auto begin = take_room(size_bytes);
  if (!begin) return nullptr;
  if (!reserve_room(file_, *begin, size_bytes).ok()) {
    unused_.emplace(size_bytes, *begin);
    return nullptr;
  }
  void* const buffer = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_,
                            static_cast<off_t>(*begin));
  // All pages at once, not one fault for each. This also finds out whether there is enough memory:
  // later, the kernel could only end the process.
  const bool is_refused = buffer != MAP_FAILED &&
                          madvise(buffer, size_bytes, kPopulateWrite) != 0 &&
                          (errno == ENOMEM || errno == EFAULT);
  if (is_refused) munmap(buffer, size_bytes);
  if (buffer == MAP_FAILED || is_refused) {
    unused_.emplace(size_bytes, *begin);
    return nullptr;
  }
  buffers_[reinterpret_cast<uintptr_t>(buffer)] = {*begin, size_bytes};
  return buffer;
}

void SharedMemory::free(void* buffer, size_t size_bytes) {
  const MutexLock lock(mutex_);
  const auto held = buffers_.find(reinterpret_cast<uintptr_t>(buffer));
  if (held == buffers_.end()) return;
  munmap(buffer, size_bytes);
  // Returns the pages to the system, also those that workers have mapped.
  static_cast<void>(fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                              static_cast<off_t>(held->second.begin),
                              static_cast<off_t>(size_bytes)));
  unused_.emplace(size_bytes, held->second.begin);
  buffers_.erase(held);
}

}  // namespace millrace::python
