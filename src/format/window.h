// Window: buffered reads of a file at rising offsets.
//
// Formats look at a few bytes of each record to find the next one. If records are small, one read
// of kStretchBytes serves many of them; if they are large, no more than that is read and not used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "io/engine.h"

namespace millrace::format {

class Window {
 public:
  static constexpr size_t kStretchBytes = 16 * 1024;

  // REQUIRES: `reader` outlives this object.
  Window(const io::Reader& reader, uint64_t file_bytes)
      : reader_(reader), file_bytes_(file_bytes) {}

  uint64_t file_bytes() const { return file_bytes_; }

  // The view is valid until the next call. Fails without reading if the file is too short.
  Result<ByteView> at(uint64_t offset_bytes, size_t size_bytes) {
    if (offset_bytes > file_bytes_ || size_bytes > file_bytes_ - offset_bytes) {
      return fail(Errc::kCorrupt, "{} bytes are needed at byte {}, but the file ends at {}",
                  size_bytes, offset_bytes, file_bytes_);
    }
    if (offset_bytes < begin_ || offset_bytes - begin_ > bytes_.size() ||
        size_bytes > bytes_.size() - (offset_bytes - begin_)) {
      RETURN_IF_ERROR(fill(offset_bytes, size_bytes));
    }
    return ByteView(bytes_).subspan(static_cast<size_t>(offset_bytes - begin_), size_bytes);
  }

 private:
  Status fill(uint64_t offset_bytes, size_t size_bytes) {
    const uint64_t left = file_bytes_ - offset_bytes;
    bytes_.resize(static_cast<size_t>(
        std::min<uint64_t>(left, std::max<uint64_t>(size_bytes, kStretchBytes))));
    begin_ = offset_bytes;
    const auto read = reader_.read_at(offset_bytes, bytes_);
    if (read.ok() && *read >= size_bytes) {
      bytes_.resize(*read);
      return {};
    }
    bytes_.clear();
    if (!read.ok()) return read.error();
    return fail(Errc::kIo, "the file shrank to {} bytes while it was indexed",
                offset_bytes + *read);
  }

  const io::Reader& reader_;
  uint64_t file_bytes_;
  uint64_t begin_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace millrace::format
