// Files: from what a program says (a path, a descriptor) to the name under which it is recorded.
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "hook/path.h"
#include "hook/syscall.h"
#include "trace/preload/link_kind.h"
#include "trace/preload/recorder.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

// The working directory, as a name; kNoName: to be asked for.
constinit std::atomic<uint32_t> working_directory{0};

std::string_view current_directory() {
  auto id = NameId{working_directory.load(std::memory_order_relaxed)};
  if (id == kNoName) {
    char text[4096];
    const long size = hook::sys_getcwd(text, sizeof(text));
    if (size <= 1) return "/";
    id = intern({text, static_cast<size_t>(size) - 1});
    working_directory.store(static_cast<uint32_t>(id), std::memory_order_relaxed);
  }
  return recorder.names.text(id);
}

}  // namespace

void forget_working_directory() { working_directory.store(0, std::memory_order_relaxed); }

NameId intern_path(const char* path) {
  if (path == nullptr) return kNoName;
  hook::PathBuffer buffer;
  const std::string_view text(path);
  hook::normalise_path(text.starts_with('/') ? std::string_view() : current_directory(), text,
                       buffer);
  return intern(buffer.view());
}

NameId intern_path_at(int directory, const char* path) {
  if (path == nullptr) return directory == AT_FDCWD ? kNoName : file_of(describe(directory));
  if (path[0] == '/' || directory == AT_FDCWD) return intern_path(path);
  const hook::Description* base = describe(directory);
  if (base == nullptr) return intern_path(path);
  hook::PathBuffer buffer;
  hook::normalise_path(recorder.names.text(file_of(base)), path, buffer);
  return intern(buffer.view());
}

hook::Description* describe(int fd) {
  hook::Description* known = recorder.descriptors.find(fd);
  if (__builtin_expect(known != nullptr, 1) || fd < 0 || writer.in_vfork) return known;
  char link[32];
  TextBuilder(link).add("/proc/self/fd/").add(static_cast<uint64_t>(fd)).end();
  char text[4096];
  const long size = hook::sys_readlink(link, text, sizeof(text));
  if (size <= 0) return nullptr;  // not open, or no /proc
  const std::string_view target(text, static_cast<size_t>(size));
  const bool has_path = target.starts_with('/');
  const NameId name = intern(name_of_link(target));
  uint32_t flags = has_path ? hook::kPositionUnknown : hook::kNotSeekable;
  if (recorder.names.filtered(name)) flags |= hook::kIgnored;
  return recorder.descriptors.opened(fd, static_cast<uint32_t>(name), flags);
}

}  // namespace millrace::trace
