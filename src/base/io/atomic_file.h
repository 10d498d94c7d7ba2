// AtomicFile: a file that appears under its name complete, or not at all.
//
// The bytes go to a temporary file in the same directory. It is made durable and renamed; then the
// directory is made durable as well. A crash at any moment leaves the old file or the new one. A
// writer that fails or is destroyed before commit() leaves nothing.
//
// Symbolic links are followed: the link stays, and the file it points to is replaced. Only a
// regular file can be replaced. Devices, pipes and open descriptors (/dev/null, /dev/stdout) are
// written directly, as the bytes arrive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/base.h"
#include "base/io/file.h"
#include "base/result.h"

namespace millrace {

class AtomicFile {
 public:
  // `mode` is used as in open(2): the umask applies.
  static Result<AtomicFile> create(const std::filesystem::path& path, unsigned mode = 0666);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status append(ByteView bytes);

  // Makes the content durable and renames the file. Replaces a file that had the name before and
  // keeps that file's permissions.
  Status commit();

 private:
  AtomicFile(std::filesystem::path path, std::filesystem::path temporary_path, File file);

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;  // empty: written directly, committed, or moved from
  File file_;
  uint64_t size_bytes_ = 0;
};

// A new file beside `path`, under a hidden name that nobody else has. Open for reading, too.
struct NewFile {
  std::filesystem::path path;
  File file;
};
Result<NewFile> create_beside(const std::filesystem::path& path, unsigned mode);

// Whether create_beside() gives such names for a file called `final_name`.
bool is_temporary_name(std::string_view name, std::string_view final_name);

// Whether `path` is the same file, pipe or device as standard output. /dev/stdout is, for example.
bool is_standard_output(const std::filesystem::path& path);

Status write_file_atomically(const std::filesystem::path& path, ByteView bytes,
                             unsigned mode = 0666);

}  // namespace millrace
