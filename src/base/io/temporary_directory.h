// TemporaryDirectory: a directory with a unique name. The destructor removes it with its content.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace millrace {

class TemporaryDirectory {
 public:
  // Creates it in `parent`. Its name is `prefix` and six random characters.
  static Result<TemporaryDirectory> create(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path(),
      std::string_view prefix = "millrace-");

  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;  // empty: moved from
};

}  // namespace millrace
