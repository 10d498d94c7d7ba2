#include "trace/preload/areas.h"

#include <cstring>

#include "hook/syscall.h"
#include "trace/preload/file_access.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

// At most: a file of 8 MiB.
constexpr uint32_t kAreasMax = 64;

uint32_t taken_of(wire::AreasHeader& file) {
  return std::atomic_ref<uint32_t>(file.taken).load(std::memory_order_relaxed);
}

}  // namespace

void Areas::prepare(const char* directory, uint32_t process, uint64_t ticks, const void* in_use) {
  if (++forks_ == 1) return;
  if (file_ != nullptr && taken_of(*file_) < file_->area_count) return;
  // Two threads that fork at once: the other one's children make their own files, or find what we
  // make. Nobody waits.
  if (preparing_.exchange(true, std::memory_order_acquire)) return;
  make(directory, process, ticks, in_use);
  preparing_.store(false, std::memory_order_release);
}

void Areas::make(const char* directory, uint32_t process, uint64_t ticks, const void* in_use) {
  const uint32_t count = forks_ * 2 < kAreasMax ? forks_ * 2 : kAreasMax;
  const size_t path_size = std::strlen(directory) + 80;
  auto* path = static_cast<char*>(__builtin_alloca(path_size));
  TextBuilder(path, path_size)
      .add(directory)
      .add("/areas-")
      .add(process)
      .add("-")
      .add(ticks, 16)
      .add(".rings")
      .end();
  int error = 0;
  void* memory = map_file({.path = path,
                           .offset = 0,
                           .size = wire::area_offset(count),
                           .create = true,
                           .exclusive = true},
                          &error);
  if (memory == nullptr) return;  // children make their own files, or count what they lose
  wire::AreasHeader* before = file_;
  file_ = static_cast<wire::AreasHeader*>(memory);
  file_->version = wire::kRecordingVersion;
  file_->area_count = count;
  std::atomic_ref<uint64_t>(file_->magic).store(wire::kAreasMagic, std::memory_order_release);
  file_process_ = process;
  file_ticks_ = ticks;
  if (before == nullptr) return;
  const auto begin = reinterpret_cast<uintptr_t>(before);
  const size_t size = wire::area_offset(before->area_count);
  const auto used = reinterpret_cast<uintptr_t>(in_use);
  if (used < begin || used >= begin + size) hook::sys_munmap(before, size);
}

bool Areas::take(Area* area) {
  forks_ = 0;  // those of our parent
  if (file_ == nullptr) return false;
  const uint32_t number =
      std::atomic_ref<uint32_t>(file_->taken).fetch_add(1, std::memory_order_relaxed);
  if (number >= file_->area_count) return false;
  char* place = reinterpret_cast<char*>(file_) + wire::area_offset(number);
  *area = {reinterpret_cast<wire::ProcessPage*>(place), file_process_, file_ticks_, number};
  return true;
}

}  // namespace millrace::trace
