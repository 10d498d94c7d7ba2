// AtomicFile: a file that appears under its name whole, or not at all.
//
// The bytes go to a temporary name in the same directory, are made durable, and take the final name
// by rename; the directory is made durable as well. A crash at any moment leaves the old file or
// the new one. A writer that fails or is destroyed before commit() leaves nothing.
//
// Symbolic links are followed: the link stays, and the file it points to is replaced. Only a
// regular file can be replaced. Devices, pipes and open descriptors (/dev/null, /dev/stdout) are
// written directly, as the bytes come.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/base.h"
#include "base/file.h"
#include "base/result.h"

namespace millrace {

class AtomicFile {
 public:
  // `mode` as open(2) takes it: the umask applies.
  static Result<AtomicFile> create(const std::filesystem::path& path, unsigned mode = 0666);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status append(ByteView bytes);

  // Makes the content durable and gives it its name. The file that had the name before is replaced,
  // and its permissions are taken over.
  Status commit();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary_path, File file);

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;  // empty: written directly, committed, or moved from
  File file_;
  uint64_t size_bytes_ = 0;
};

// Whether a path names the very file, pipe or device that is standard output, as /dev/stdout does.
bool is_standard_output(const std::filesystem::path& path);

Status write_file_atomically(const std::filesystem::path& path, ByteView bytes,
                             unsigned mode = 0666);

}  // namespace millrace
