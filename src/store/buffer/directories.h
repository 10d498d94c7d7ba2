// BufferDirectories: which directories the names of a buffer are in, as inodes of the upper
// directory.
//
// A buffer that was left is executed later. Somebody may have put another directory in the place of
// one that the job wrote to: its files are not those that the job wanted to replace or remove.
// Without this file, or with a damaged one, nothing is known, which is no error. Not thread-safe.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "base/io/file.h"
#include "wire/store_buffer.h"

namespace millrace::store {

class BufferDirectories {
 public:
  BufferDirectories(const std::filesystem::path& buffer, std::filesystem::path upper)
      : upper_(std::move(upper)) {
    auto opened = File::open(buffer / wire::kBufferDirectories,
                             O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (!opened.ok()) return;
    file_ = *std::move(opened);
    load();
  }

  // Where a path, relative to the upper directory, is now.
  void note(const std::string& path) {
    if (path.empty() || !file_.is_open()) return;
    const std::string directory = parent_of(path);
    const uint64_t inode = inode_of(directory);
    const auto known = inodes_.find(directory);
    if (inode == 0 || (known != inodes_.end() && known->second == inode)) return;
    inodes_[directory] = inode;
    std::string line = std::to_string(inode) + " " + directory;
    line += '\0';
    [[maybe_unused]] const auto written = ::write(file_.fd(), line.data(), line.size());
  }

  // False if the directory of a path is another one than was noted.
  bool is_same(const std::string& path) const {
    const auto known = inodes_.find(parent_of(path));
    if (path.empty() || known == inodes_.end()) return true;
    const uint64_t inode = inode_of(known->first);
    return inode == 0 || inode == known->second;
  }

 private:
  static std::string parent_of(const std::string& path) {
    return std::filesystem::path(path).parent_path().string();
  }

  // "INODE PATH" and a zero, each. The last one of a path counts.
  void load() {
    const auto size_bytes = file_.size_bytes();
    std::string text(size_bytes.ok() ? *size_bytes : 0, '\0');
    if (!file_.read_exactly_at(0, std::as_writable_bytes(std::span(text))).ok()) return;
    for (size_t at = 0, end = 0; (end = text.find('\0', at)) != std::string::npos; at = end + 1) {
      uint64_t inode = 0;
      const char* const last = text.data() + end;
      const auto [rest, failed] = std::from_chars(text.data() + at, last, inode);
      if (failed != std::errc() || rest == last || *rest != ' ') continue;
      inodes_[std::string(rest + 1, last)] = inode;
    }
  }

  // 0: there is no such directory.
  uint64_t inode_of(const std::string& directory) const {
    struct stat info = {};
    const bool is_there = ::stat((upper_ / directory).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    return is_there ? info.st_ino : 0;
  }

  std::filesystem::path upper_;
  File file_;
  std::map<std::string, uint64_t> inodes_;  // by directory, relative to upper_
};

}  // namespace millrace::store
