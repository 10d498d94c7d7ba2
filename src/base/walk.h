// walk: every entry below a directory, without holding them all.
//
// Symbolic links are told, not followed, so a walk ends. One directory is open at a time, so depth
// is not bound by the limit of open files. The order within a directory is the file system's. A
// directory that cannot be read, or vanishes meanwhile, is reported through the visitor and passed
// over: one bad folder must not hide a million good files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/result.h"

namespace millrace {

enum class EntryKind { kFile, kDirectory, kSymlink, kOther };

struct WalkEntry {
  const std::filesystem::path& path;  // begins with the root that was given
  EntryKind kind;
};

enum class WalkNext {
  kContinue,
  kSkipDirectory,  // of a directory: do not descend; of anything else: as kContinue
  kStop,
};

struct WalkVisitor {
  std::function<WalkNext(const WalkEntry&)> entry;
  std::function<void(const Error&)> error = [](const Error&) {};
};

struct WalkCounts {
  uint64_t entries = 0;
  uint64_t errors = 0;
};

// Fails only where `root` itself cannot be read or is no directory. The root is no entry.
Result<WalkCounts> walk(const std::filesystem::path& root, const WalkVisitor& visitor);

}  // namespace millrace
