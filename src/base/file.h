// File: an open file as a value that closes itself, with reads and writes that finish or say why.
//
// Interrupted and short transfers are continued; every error names what was attempted, and the
// functions that take a path put it before the message. Positional calls only: a File has no
// cursor, so threads may share one for reading.
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

  // `flags` and `mode` as open(2) takes them; O_CLOEXEC is always added.
  static Result<File> open(const std::filesystem::path& path, int flags, unsigned mode = 0644);

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  Result<uint64_t> size_bytes() const;

  // Reads until `out` is full or the file ends; returns the bytes read.
  Result<size_t> read_at(uint64_t offset_bytes, MutableByteView out) const;

  // Fails when the file ends before `out` is full.
  Status read_exactly_at(uint64_t offset_bytes, MutableByteView out) const;

  Status write_at(uint64_t offset_bytes, ByteView bytes) const;

  // On return the data, and what is needed to find it again, are on the device (fdatasync).
  Status sync() const;

  // Reports what the file system only tells at close (NFS and quotas do). The destructor ignores
  // it.
  Status close();

 private:
  int fd_ = -1;
};

// The whole file, also of those in /proc that claim to be empty. Fails over `limit_bytes`, so that
// a wrong argument cannot fill the memory.
Result<std::string> read_file(const std::filesystem::path& path,
                              uint64_t limit_bytes = uint64_t{1} << 30);

}  // namespace millrace
