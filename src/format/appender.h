// Appender: writes a file from start to end, buffered in pieces of 256 KiB.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"
#include "io/engine.h"

namespace millrace::format {

class Appender {
 public:
  explicit Appender(std::unique_ptr<io::Writer> writer) : writer_(std::move(writer)) {}

  uint64_t size_bytes() const { return flushed_bytes_ + pending_.size(); }

  Status append(ByteView bytes) { return append(text_of(bytes)); }
  Status append(std::string_view bytes) {
    if (bytes.size() >= kPieceBytes) {  // without a copy
      RETURN_IF_ERROR(flush());
      RETURN_IF_ERROR(writer_->write_at(flushed_bytes_, bytes_of(bytes)));
      flushed_bytes_ += bytes.size();
      return {};
    }
    pending_ += bytes;
    return pending_.size() < kPieceBytes ? Status() : flush();
  }
  Status pad(size_t size_bytes) {
    pending_.append(size_bytes, '\0');
    return {};
  }

  // Overwrites bytes that were appended before, for headers that count what follows.
  Status overwrite(uint64_t offset_bytes, ByteView bytes) {
    RETURN_IF_ERROR(flush());
    return writer_->write_at(offset_bytes, bytes);
  }

  Status close() {
    RETURN_IF_ERROR(flush());
    return writer_->close();
  }

 private:
  static constexpr size_t kPieceBytes = 256 * 1024;

  Status flush() {
    if (pending_.empty()) return {};
    RETURN_IF_ERROR(writer_->write_at(flushed_bytes_, bytes_of(pending_)));
    flushed_bytes_ += pending_.size();
    pending_.clear();
    return {};
  }

  std::unique_ptr<io::Writer> writer_;
  uint64_t flushed_bytes_ = 0;
  std::string pending_;
};

}  // namespace millrace::format
