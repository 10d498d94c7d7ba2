// MappedFile: a whole file mapped into memory.
//
// The length is that of the file when it was mapped. If the file is truncated later, touching the
// lost pages kills the program with SIGBUS: map only files that nobody truncates, and read others.
#pragma once

#include <filesystem>

#include "base/base.h"
#include "base/result.h"

namespace millrace {

class MappedFile {
 public:
  // How the bytes will be read; a hint to the kernel's read-ahead.
  enum class Access { kNormal, kSequential, kRandom };

  static Result<MappedFile> open(const std::filesystem::path& path,
                                 Access access = Access::kNormal);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  ByteView bytes() const { return bytes_; }  // empty for an empty file

 private:
  explicit MappedFile(ByteView bytes) : bytes_(bytes) {}

  ByteView bytes_;
};

}  // namespace millrace
