// modified_ns: when a file was last modified. Shows that it was replaced.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace millrace::format {

// Since 1970-01-01 UTC; 0 if stat() fails, as for a path of the in-memory engine.
inline int64_t modified_ns(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return 0;
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

}  // namespace millrace::format
