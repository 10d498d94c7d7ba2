#include "bench/generate/block_file.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/bytes.h"

namespace millrace::bench {

Result<BlockFile> BlockFile::create(const std::filesystem::path& path, data::Buffer& room,
                                    Written written, size_t block_bytes) {
  ASSIGN_OR_RETURN(File file, File::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666));
  return BlockFile(std::move(file), room.room(block_bytes), std::move(written));
}

Status BlockFile::append(ByteView bytes) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), block_.size() - used_);
    std::memcpy(block_.data() + used_, bytes.data(), count);
    used_ += count;
    bytes = bytes.subspan(count);
    if (used_ == block_.size()) RETURN_IF_ERROR(flush());
  }
  return {};
}

Status BlockFile::append_array(const Content& content, const ContentArray& array,
                               const Seen& seen) {
  constexpr size_t kAlignment = Content::kAlignment;
  const uint64_t size = array.size_bytes();
  for (uint64_t at = 0; at < size;) {
    const uint64_t left = size - at;
    const size_t space = block_.size() - used_;
    const bool fits = left <= space;
    const size_t count = fits ? static_cast<size_t>(left) : space / kAlignment * kAlignment;
    if (count > 0) {
      const MutableByteView piece = block_.subspan(used_, count);
      content.fill(array, at, piece);
      if (seen) seen(piece);
      used_ += count;
      at += count;
      if (used_ == block_.size()) RETURN_IF_ERROR(flush());
      continue;
    }
    // The block ends within an alignment unit of the array.
    std::array<std::byte, kAlignment> unit;
    const auto piece =
        std::span(unit).first(static_cast<size_t>(std::min<uint64_t>(left, kAlignment)));
    content.fill(array, at, piece);
    if (seen) seen(piece);
    RETURN_IF_ERROR(append(piece));
    at += piece.size();
  }
  return {};
}

Status BlockFile::append_zeros(uint64_t size_bytes, const Seen& seen) {
  static constexpr std::array<std::byte, 4096> kZeros{};
  for (uint64_t at = 0; at < size_bytes; at += kZeros.size()) {
    const auto part = std::span(kZeros).first(
        static_cast<size_t>(std::min<uint64_t>(kZeros.size(), size_bytes - at)));
    if (seen) seen(part);
    RETURN_IF_ERROR(append(part));
  }
  return {};
}

Status BlockFile::overwrite(uint64_t offset_bytes, ByteView bytes) {
  if (offset_bytes < flushed_bytes_) {
    const auto count =
        static_cast<size_t>(std::min<uint64_t>(bytes.size(), flushed_bytes_ - offset_bytes));
    RETURN_IF_ERROR(file_.write_at(offset_bytes, bytes.first(count)));
    bytes = bytes.subspan(count);
    offset_bytes += count;
  }
  if (!bytes.empty()) {
    std::memcpy(block_.data() + (offset_bytes - flushed_bytes_), bytes.data(), bytes.size());
  }
  return {};
}

Status BlockFile::close() {
  RETURN_IF_ERROR(flush());
  return file_.close();
}

Status BlockFile::flush() {
  if (used_ == 0) return {};
  const ByteView bytes = ByteView(block_).first(used_);
  used_ = 0;
  if (!deflater_) return write_out(bytes);
  std::string deflated;
  RETURN_IF_ERROR(deflater_->append(text_of(bytes), deflated));
  return write_out(bytes_of(deflated));
}

Status BlockFile::write_out(ByteView bytes) {
  RETURN_IF_ERROR(file_.write_at(flushed_bytes_, bytes));
  flushed_bytes_ += bytes.size();
  if (written_) written_(bytes.size());
  return {};
}

Status BlockFile::begin_deflated(int level) {
  RETURN_IF_ERROR(flush());
  ASSIGN_OR_RETURN(deflater_, GzipWriter::create_raw(level));
  return {};
}

Status BlockFile::end_deflated() {
  RETURN_IF_ERROR(flush());
  std::string rest;
  RETURN_IF_ERROR(std::exchange(deflater_, nullptr)->finish(rest));
  return write_out(bytes_of(rest));
}

}  // namespace millrace::bench
