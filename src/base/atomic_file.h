// AtomicFile: a file that appears under its name whole, or not at all.
//
// The bytes go to a temporary name in the same directory, are made durable, and take the final name
// by rename; the directory is made durable as well. A crash at any moment leaves the old file or
// the new one. A writer that fails or is destroyed before commit() leaves nothing.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/base.h"
#include "base/file.h"
#include "base/result.h"

namespace millrace {

class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::filesystem::path& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status append(ByteView bytes);

  // Makes the content durable and gives it its name, replacing what had it before (whose
  // permissions it takes over).
  Status commit();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary_path, File file);

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;  // empty once committed or moved from
  File file_;
  uint64_t size_bytes_ = 0;
};

Status write_file_atomically(const std::filesystem::path& path, ByteView bytes);

}  // namespace millrace
