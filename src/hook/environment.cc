#include "hook/environment.h"

#include <dlfcn.h>

#include <cstring>

#include "hook/path.h"
#include "hook/scratch.h"
#include "hook/syscall.h"

namespace millrace::hook {
namespace {

constexpr char kPreload[] = "LD_PRELOAD";
constexpr size_t kPreloadSize = sizeof(kPreload) - 1;

size_t name_size_of(const char* entry) {
  const char* equals = std::strchr(entry, '=');
  return equals == nullptr ? std::strlen(entry) : static_cast<size_t>(equals - entry);
}

// Whether LD_PRELOAD, a list separated by colons or spaces, contains the library.
bool lists_library(const char* list, const char* library) {
  const size_t size = std::strlen(library);
  for (const char* at = list; (at = std::strstr(at, library)) != nullptr; at += 1) {
    const bool begins = at == list || at[-1] == ':' || at[-1] == ' ';
    if (begins && (at[size] == '\0' || at[size] == ':' || at[size] == ' ')) return true;
  }
  return false;
}

}  // namespace

const char* find_variable(char* const* environment, const char* name, size_t name_size) {
  if (environment == nullptr) return nullptr;
  for (; *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, name, name_size) == 0 && (*environment)[name_size] == '=') {
      return *environment + name_size + 1;
    }
  }
  return nullptr;
}

const char* Environment::keep(const char* name, size_t name_size, const char* value) {
  const size_t size = name_size + 1 + std::strlen(value) + 1;
  if (size > text_left_) {
    const size_t chunk = size > 64 * 1024 ? size : 64 * 1024;
    void* memory = sys_mmap(chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == nullptr) return nullptr;
    text_ = static_cast<char*>(memory);
    text_left_ = chunk;
  }
  char* entry = text_;
  std::memcpy(entry, name, name_size);
  entry[name_size] = '=';
  std::memcpy(entry + name_size + 1, value, size - name_size - 1);
  text_ += size;
  text_left_ -= size;
  return entry;
}

void Environment::add(const char* name, const char* value) {
  const size_t name_size = std::strlen(name);
  const char* entry = keep(name, name_size, value);
  if (entry == nullptr) return;
  for (size_t i = 0; i < entry_count_; ++i) {
    if (name_size_of(entries_[i]) == name_size && std::memcmp(entries_[i], name, name_size) == 0) {
      entries_[i] = entry;
      return;
    }
  }
  if (entry_count_ < kEntriesMax) entries_[entry_count_++] = entry;
}

void Environment::remember(const char* library, const char* off_name, const char* prefix,
                           char* const* environment) {
  const char* kept = keep("", 0, library);
  library_ = kept == nullptr ? nullptr : kept + 1;
  off_name_ = off_name;
  const size_t prefix_size = std::strlen(prefix);
  for (char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, prefix, prefix_size) != 0) continue;
    const size_t name_size = name_size_of(*entry);
    if ((*entry)[name_size] != '=' || entry_count_ == kEntriesMax) continue;
    const char* copy = keep(*entry, name_size, *entry + name_size + 1);
    if (copy != nullptr) entries_[entry_count_++] = copy;
  }
}

bool Environment::remember_own_library(const char* off_name, const char* prefix) {
  // LD_PRELOAD may contain a relative path, or a name found through the library path.
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&find_variable), &info) == 0) return false;
  const Scratch<ScratchText> current;
  const Scratch<PathBuffer> path;
  if (!current || !path) return false;
  if (sys_getcwd(current->text, sizeof(current->text)) <= 0) current->text[0] = '\0';
  normalise_path(current->text, info.dli_fname, *path);
  if (path->size >= sizeof(path->text)) return false;
  path->text[path->size] = '\0';
  remember(path->text, off_name, prefix, environ);
  return true;
}

size_t Environment::missing_bytes(char* const* environment) const {
  if (library_ == nullptr) return 0;
  const char* off = find_variable(environment, off_name_, std::strlen(off_name_));
  if (off != nullptr && std::strcmp(off, "0") == 0) return 0;
  size_t present = 0;
  for (char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) ++present;
  size_t missing = 0;
  for (size_t i = 0; i < entry_count_; ++i) {
    if (find_variable(environment, entries_[i], name_size_of(entries_[i])) == nullptr) ++missing;
  }
  const char* preload = find_variable(environment, kPreload, kPreloadSize);
  const bool preloaded = preload != nullptr && lists_library(preload, library_);
  if (missing == 0 && preloaded) return 0;
  const size_t text = preloaded ? 0
                                : kPreloadSize + 1 + std::strlen(library_) + 1 +
                                      (preload == nullptr ? 0 : std::strlen(preload)) + 1;
  return (present + missing + 2) * sizeof(char*) + text;
}

char** Environment::fill(char* const* environment, void* memory) const {
  auto** out = static_cast<char**>(memory);
  const char* preload = find_variable(environment, kPreload, kPreloadSize);
  const bool preloaded = preload != nullptr && lists_library(preload, library_);
  size_t count = 0;
  for (char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    if (!preloaded && *entry + kPreloadSize + 1 == preload) continue;  // replaced below
    out[count++] = *entry;
  }
  for (size_t i = 0; i < entry_count_; ++i) {
    if (find_variable(environment, entries_[i], name_size_of(entries_[i])) == nullptr) {
      out[count++] = const_cast<char*>(entries_[i]);
    }
  }
  if (!preloaded) {
    // Behind the pointers. missing_bytes counted one pointer more than is used.
    char* text = reinterpret_cast<char*>(out + count + 2);
    out[count++] = text;
    text = stpcpy(stpcpy(text, kPreload), "=");
    text = stpcpy(text, library_);
    if (preload != nullptr && *preload != '\0') stpcpy(stpcpy(text, ":"), preload);
  }
  out[count] = nullptr;
  return out;
}

}  // namespace millrace::hook
