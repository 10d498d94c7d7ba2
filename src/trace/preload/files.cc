// Files: maps what a program names (a path, a descriptor) to the name that is recorded.
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "hook/path.h"
#include "hook/program_memory.h"
#include "hook/scratch.h"
#include "hook/syscall.h"
#include "trace/preload/link_kind.h"
#include "trace/preload/recorder.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

// The name of the working directory; kNoName: not known yet.
constinit std::atomic<uint32_t> working_directory{0};

[[gnu::noinline]] NameId ask_for_working_directory() {
  const hook::Scratch<hook::ScratchText> current;
  if (!current) return kNoName;
  const long size = hook::sys_getcwd(current->text, sizeof(current->text));
  const NameId id =
      intern(size <= 1 ? "/" : std::string_view(current->text, static_cast<size_t>(size) - 1));
  working_directory.store(static_cast<uint32_t>(id), std::memory_order_relaxed);
  return id;
}

[[gnu::noinline]] hook::Description* ask_for_description(int fd);

// Not inlined: most paths are already known and need no buffer.
[[gnu::noinline]] NameId intern_new_path(NameId directory, std::string_view text) {
  const hook::Scratch<hook::PathBuffer> buffer;
  if (!buffer) return kNoName;
  hook::normalise_path(recorder.names.text(directory), text, *buffer);
  return intern(buffer->view());
}

NameId intern_path_text(std::string_view text) {
  if (!text.starts_with('/')) return intern_new_path(working_directory_name(), text);
  // Paths in the table are normalised: a path found there unchanged needs no work.
  const NameId known = recorder.names.find(text);
  return known != kNoName ? known : intern_new_path(kNoName, text);
}

NameId intern_path_text_at(int directory, std::string_view text) {
  if (text.starts_with('/') || directory == AT_FDCWD) return intern_path_text(text);
  const hook::Description* base = describe(directory);
  return base == nullptr ? intern_path_text(text) : intern_new_path(file_of(base), text);
}

}  // namespace

NameId working_directory_name() {
  const auto known = NameId{working_directory.load(std::memory_order_relaxed)};
  return known != kNoName ? known : ask_for_working_directory();
}

void forget_working_directory() { working_directory.store(0, std::memory_order_relaxed); }

NameId intern_path(const char* path) { return path == nullptr ? kNoName : intern_path_text(path); }

NameId intern_path_at(int directory, const char* path) {
  if (path == nullptr) return directory == AT_FDCWD ? kNoName : file_of(describe(directory));
  return intern_path_text_at(directory, path);
}

NameId intern_unread_path_at(int directory, const char* path) {
  if (path == nullptr) return intern_path_at(directory, path);
  const hook::Scratch<hook::ScratchText> copy;
  if (!copy) return kNoName;
  const long size = hook::copy_text(path, copy->text, sizeof(copy->text));
  if (size < 0) return kNoName;
  return intern_path_text_at(directory, {copy->text, static_cast<size_t>(size)});
}

NameId intern_unread_text(const char* text) {
  const hook::Scratch<hook::ScratchText> copy;
  if (!copy) return kNoName;
  const long size = hook::copy_text(text, copy->text, sizeof(copy->text));
  return size < 0 ? kNoName : intern({copy->text, static_cast<size_t>(size)});
}

NameId intern_path_after(int error, int directory, const char* path) {
  switch (error) {
    case 0:
    // The kernel has read the path.
    case ENOENT:
    case EEXIST:
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case EACCES:
    case EROFS:
    case ENOSPC:
      return intern_path_at(directory, path);
    case EFAULT:
      return kNoName;
    default:  // EINVAL and others may occur before the path is read
      return intern_unread_path_at(directory, path);
  }
}

hook::Description* describe(int fd) {
  hook::Description* known = recorder.descriptors.find(fd);
  if (__builtin_expect(known != nullptr, 1) || fd < 0 || writer.in_vfork) return known;
  return ask_for_description(fd);
}

namespace {

hook::Description* ask_for_description(int fd) {
  char link[32];
  Text(link).add("/proc/self/fd/").add(static_cast<uint64_t>(fd));
  const hook::Scratch<hook::ScratchText> scratch;
  if (!scratch) return nullptr;
  const char* text = scratch->text;
  const long size = hook::sys_readlink(link, scratch->text, sizeof(scratch->text));
  if (size <= 0) return nullptr;  // not open, or no /proc
  const std::string_view target(text, static_cast<size_t>(size));
  const bool has_path = target.starts_with('/');
  const NameId name = intern(name_of_link(target));
  uint32_t flags = has_path ? hook::kPositionUnknown : hook::kNotSeekable;
  if (recorder.names.filtered(name)) flags |= hook::kIgnored;
  return recorder.descriptors.opened(fd, static_cast<uint32_t>(name), flags);
}

}  // namespace

}  // namespace millrace::trace
