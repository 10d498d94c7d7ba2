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

[[gnu::noinline]] NameId ask_for_working_directory() {
  char text[4096];
  const long size = hook::sys_getcwd(text, sizeof(text));
  const NameId id = intern(size <= 1 ? "/" : std::string_view(text, static_cast<size_t>(size) - 1));
  working_directory.store(static_cast<uint32_t>(id), std::memory_order_relaxed);
  return id;
}

std::string_view current_directory() { return recorder.names.text(working_directory_name()); }

NameId intern_new_path(std::string_view text);

}  // namespace

NameId working_directory_name() {
  const auto known = NameId{working_directory.load(std::memory_order_relaxed)};
  return known != kNoName ? known : ask_for_working_directory();
}

void forget_working_directory() { working_directory.store(0, std::memory_order_relaxed); }

NameId intern_path(const char* path) {
  if (path == nullptr) return kNoName;
  const std::string_view text(path);
  // Paths in the table are normal: one that is there as it is given needs no work.
  if (text.starts_with('/')) {
    const NameId known = recorder.names.find(text);
    if (known != kNoName) return known;
  }
  return intern_new_path(text);
}

namespace {

[[gnu::noinline]] NameId intern_new_path(std::string_view text) {
  hook::PathBuffer buffer;
  hook::normalise_path(text.starts_with('/') ? std::string_view() : current_directory(), text,
                       buffer);
  return intern(buffer.view());
}

}  // namespace

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
