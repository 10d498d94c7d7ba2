// Resolve: finds the entry of the catalogue that a path below the root means.
//
// Like the kernel: component by component, with `..` and symbolic links, both of which may lead out
// of the root and back. A name that the catalogue lacks is the same name in the upper directory.
//
// No system calls, except through Upper. The caller provides the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/catalogue_view.h"

namespace millrace::store {

inline constexpr size_t kPathBytes = 4096;  // with the zero at the end, like PATH_MAX
inline constexpr int kLinksMax = 40;

enum class Where : uint8_t {
  kOutside,    // not below the root: the call is not ours
  kInside,     // `entry`
  kElsewhere,  // not in the catalogue, under the real name `path`
  kFailed,     // `error`
};

struct Place {
  Where where = Where::kOutside;
  bool is_new = false;             // kFailed with ENOENT: only the last name is missing
  bool is_created = false;         // `path` is in the upper directory. If is_new: it may become one
  bool is_buffered = false;        // of those: `path` is the file in the buffer
  int error = 0;                   // an errno value
  uint32_t entry = 0;              // if is_created: the directory of the catalogue above it
  const char* path = nullptr;      // zero-terminated, in the memory of the walk
  std::string_view relative = {};  // if is_created: the name below the root, in the same memory
};

// What happens to a link at the end of a path.
enum class Last : uint8_t {
  kFollow,
  kKeepLink,  // kept, unless a slash follows it
  kName,      // kept: the call means the name itself, as rename and rmdir do
};

// A path on its way: what is done, and what is left to do.
struct Walk {
  char current[kPathBytes];   // components that were taken, without a slash at either end
  char rest[2 * kPathBytes];  // at the end of the buffer, before a zero
  size_t current_size;
  size_t rest_begin;

  void start(std::string_view text);  // REQUIRES: text.size() < kPathBytes
  std::string_view done() const { return {current, current_size}; }
  std::string_view left() const { return {rest + rest_begin, sizeof(rest) - 1 - rest_begin}; }
  std::string_view take_component();  // empty at the end
  void skip_slashes();
  int add_component(std::string_view name);  // 0, or an errno value
  void drop_component();
  bool prepend(std::string_view text);  // false if there is no room
};

// The directory with the names that programs create.
struct Upper {
  std::string_view directory;  // absolute, without links; empty: there is none
  // Reads the link at a path relative to it. Returns its length, or minus an errno value: EINVAL if
  // the name exists and is not a link.
  long (*read_link)(std::string_view relative, char* out, size_t room) = nullptr;
  // Writes the path of a file in the buffer, with a zero. False if it is not there. Null: there is
  // no buffer.
  bool (*find_buffered)(std::string_view relative, char* out, size_t room) = nullptr;
};

struct Catalogued {
  const wire::CatalogueView& catalogue;
  std::string_view root;  // absolute, normal, not "/"
  Upper upper = {};
};

// The part of an absolute path after the root, such as "/train/7.jpg" or ""; null data if the path
// does not start with the root.
std::string_view below_root(std::string_view root, std::string_view path);

// Writes the path of an entry relative to the root. Returns its length, or `room` if there is no
// room for it.
size_t write_path(const wire::CatalogueView& catalogue, uint32_t entry, char* out, size_t room);

// An entry found by a single probe; kNoEntry if the path has links, "." or "..", or does not exist.
uint32_t find_plain(const wire::CatalogueView& catalogue, std::string_view relative, Last last);

// `base` is a directory.
Place walk_path(const Catalogued& tree, uint32_t base, std::string_view relative, Last last,
                Walk& walk);

}  // namespace millrace::store
