// BufferDirectories: which directories the names of a buffer are in, as inodes of the upper
// directory.
//
// A buffer that was left is executed later. Somebody may have put another directory in the place of
// one that the job wrote to: its files have old times, and still are not those that the job wanted
// to replace or remove. Without this file, or with a damaged one, nothing is known, which is no
// error. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/io/file.h"

namespace millrace::store {

class BufferDirectories {
 public:
  BufferDirectories(const std::filesystem::path& buffer, std::filesystem::path upper);

  // Where a path, relative to the upper directory, is now.
  void note(const std::string& path);

  // False if the directory of a path is another one than was noted.
  bool is_same(const std::string& path) const;

 private:
  void load();
  uint64_t inode_of(const std::string& directory) const;  // 0: there is no such directory

  std::filesystem::path upper_;
  File file_;
  std::map<std::string, uint64_t> inodes_;  // by directory, relative to upper_
};

}  // namespace millrace::store
