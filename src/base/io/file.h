// File: an open file that closes itself. Reads and writes complete or say why not.
//
// Interrupted and short transfers are continued. Every error names what was attempted; functions
// that take a path prefix the message with it. All calls are positional: a File has no cursor, so
// threads may share one for reading.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/base.h"
#include "base/result.h"

namespace millrace {

class File {
 public:
  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  // Takes over an open descriptor.
  explicit File(int fd) : fd_(fd) {}

  // `flags` and `mode` are those of open(2); O_CLOEXEC is always added.
  static Result<File> open(const std::filesystem::path& path, int flags, unsigned mode = 0644);

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  Result<uint64_t> size_bytes() const;

  // Reads until `out` is full or the file ends. Returns the number of bytes read.
  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const;

  // Fails if the file ends before `out` is full.
  Status read_exactly_at(uint64_t offset_bytes, MutableByteView out) const;

  Status write_at(uint64_t offset_bytes, ByteView bytes) const;

  // On return, the data and the metadata needed to read it are on the device (fdatasync).
  Status sync() const;

  // Returns errors that the file system reports only at close, such as those of NFS and quotas. The
  // destructor ignores them.
  Status close();

 private:
  int fd_ = -1;
};

// Renames a file to a name that must not exist. Returns 0, or an errno value: EEXIST if it exists.
int rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);

// Returns the whole file. Works for files in /proc, which claim to be empty. Fails if the file is
// larger than `limit_bytes`, so that a wrong argument cannot fill the memory.
Result<std::string> read_file(const std::filesystem::path& path,
                              uint64_t limit_bytes = uint64_t{1} << 30);

}  // namespace millrace
