#include "trace/preload/child_pages.h"

#include "hook/scratch.h"
#include "hook/syscall.h"
#include "trace/preload/file_access.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

// At most this many: a file of 8 MiB.
constexpr uint32_t kChildPagesMax = 64;

uint32_t taken_of(wire::ChildPagesHeader& file) {
  return std::atomic_ref<uint32_t>(file.taken).load(std::memory_order_relaxed);
}

}  // namespace

void ChildPages::prepare(const char* directory, uint32_t process, uint64_t ticks,
                         const void* in_use) {
  if (forks_.fetch_add(1, std::memory_order_relaxed) == 0) return;
  // Another thread is forking too. Its child creates its own file, or finds what we make. Nobody
  // waits. The file must not even be read before this, because the other thread may be unmapping
  // it.
  if (preparing_.exchange(true, std::memory_order_acquire)) return;
  wire::ChildPagesHeader* file = file_.load(std::memory_order_relaxed);
  if (file == nullptr || taken_of(*file) >= file->page_count) {
    make(directory, process, ticks, in_use);
  }
  preparing_.store(false, std::memory_order_release);
}

void ChildPages::make(const char* directory, uint32_t process, uint64_t ticks, const void* in_use) {
  const uint32_t forks = forks_.load(std::memory_order_relaxed);
  const uint32_t count = forks < kChildPagesMax / 2 ? forks * 2 : kChildPagesMax;
  const hook::Scratch<PathText> path;
  if (!path) return;
  Text(path->text).add(directory).add("/areas-").add(process).add("-").add(ticks, 16).add(".rings");
  int error = 0;
  void* memory = map_file({.path = path->text,
                           .offset = 0,
                           .size = wire::child_page_offset(count),
                           .create = true,
                           .exclusive = true},
                          &error);
  if (memory == nullptr) return;  // children create their own files, or count what they lose
  auto* file = static_cast<wire::ChildPagesHeader*>(memory);
  file->version = wire::kRecordingVersion;
  file->page_count = count;
  file->process = process;
  file->ticks = ticks;
  std::atomic_ref<uint64_t>(file->magic).store(wire::kChildPagesMagic, std::memory_order_release);
  wire::ChildPagesHeader* before = file_.exchange(file, std::memory_order_acq_rel);
  if (before == nullptr) return;
  const auto begin = reinterpret_cast<uintptr_t>(before);
  const size_t size = wire::child_page_offset(before->page_count);
  const auto used = reinterpret_cast<uintptr_t>(in_use);
  if (used < begin || used >= begin + size) hook::sys_munmap(before, size);
}

bool ChildPages::take(Page* page) {
  // These values are our parent's, set perhaps by a thread that does not exist here.
  forks_.store(0, std::memory_order_relaxed);
  preparing_.store(false, std::memory_order_relaxed);
  wire::ChildPagesHeader* file = file_.load(std::memory_order_acquire);
  if (file == nullptr) return false;
  const uint32_t number =
      std::atomic_ref<uint32_t>(file->taken).fetch_add(1, std::memory_order_relaxed);
  if (number >= file->page_count) return false;
  char* place = reinterpret_cast<char*>(file) + wire::child_page_offset(number);
  *page = {reinterpret_cast<wire::ProcessPage*>(place), file->process, file->ticks, number};
  return true;
}

}  // namespace millrace::trace
