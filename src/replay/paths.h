// Paths: the names in a trace, and where they are below the folder of the replay.
//
// Names come from a file that anyone may have written. clean_path() resolves `.` and `..` as text,
// so the result never climbs above its root, and relative_to() gives what is left below the root.
// Symbolic links are not followed where names are looked up (folder.h).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace millrace::replay {

inline constexpr uint32_t kNoPath = ~uint32_t{0};

// An absolute path without empty parts, `.` and `..`. A relative path is below `directory`. `..` at
// the root stays there.
std::string clean_path(std::string_view path, std::string_view directory);

// False for names that are not files of a storage system: pipes, sockets, anonymous memory, and
// what is below /proc, /sys and /dev. REQUIRES: `path` is as the trace has it.
bool is_storage(std::string_view path);

// Whether a clean path is `root` or below it.
bool is_below(std::string_view path, std::string_view root);

// The part of a clean path below `root`, without a leading slash; empty for the root itself.
// REQUIRES: is_below(path, root)
std::string_view relative_to(std::string_view path, std::string_view root);

// The directory that contains a clean path; "/" for the root.
std::string_view parent_of(std::string_view path);

// The deepest directory that contains both clean paths. `a` may be that directory itself.
std::string_view common_directory(std::string_view a, std::string_view b);

// Numbers clean paths in the order in which they are first seen.
class PathTable {
 public:
  uint32_t intern(std::string_view path);
  uint32_t find(std::string_view path) const;  // kNoPath: never seen
  const std::string& text(uint32_t index) const { return texts_[index]; }
  size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // not a vector: the keys refer to them
  std::unordered_map<std::string_view, uint32_t> indices_;
};

}  // namespace millrace::replay
