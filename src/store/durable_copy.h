// DurableCopy: a copy of a file on the shared file system that appears complete, or not at all.
//
// The bytes go to a temporary name in the directory of the copy, are synced, and are read back and
// compared with the checksum of what was read from the source. Only then can it get its name, and
// commit() returns when the name is durable as well. Memory is bounded. A copy that is not
// committed leaves nothing, unless the process is killed: then the temporary name, which only
// depends on a token and the directory.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>

#include "base/file.h"
#include "base/result.h"

namespace millrace::store {

// A random token: services of several nodes save files in one directory.
std::string random_token();

// The temporary name in the directory of `target`.
std::filesystem::path temporary_name(const std::filesystem::path& target, const std::string& token);

class DurableCopy {
 public:
  struct Options {
    std::filesystem::path target;
    std::string token;
    struct stat status = {};         // of the source: length, mode and time of the copy
    std::function<void()> on_block;  // between blocks of the copy; may be empty
  };

  // Copies status.st_size bytes of a regular file.
  static Result<DurableCopy> of_file(const File& source, Options options);
  // A symbolic link.
  static Result<DurableCopy> of_link(const std::string& link_target, Options options);

  DurableCopy(DurableCopy&& other) noexcept;
  DurableCopy& operator=(DurableCopy&&) = delete;
  ~DurableCopy();

  // Replaces what has the name.
  Status commit();

 private:
  DurableCopy(std::filesystem::path temporary, std::filesystem::path target)
      : temporary_(std::move(temporary)), target_(std::move(target)) {}

  std::filesystem::path temporary_;  // empty: moved from or committed
  std::filesystem::path target_;
};

}  // namespace millrace::store
