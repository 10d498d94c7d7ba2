#include "trace/read/byte_source.h"

#include <algorithm>

#include "base/io/input_file.h"

namespace millrace::trace {

Result<ByteSource> ByteSource::from_file(const std::string& path) {
  ASSIGN_OR_RETURN(File file, open_input(path));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, file.size_bytes());
  return ByteSource(std::move(file), size_bytes);
}

Result<ByteSource> ByteSource::from_piece(const Piece& piece) {
  ASSIGN_OR_RETURN(ByteSource source, from_file(piece.path));
  if (piece.offset > source.size_bytes_ || piece.size_bytes > source.size_bytes_ - piece.offset) {
    return fail(Errc::kCorrupt, "{} bytes are needed at byte {}, but the file ends at {}",
                piece.size_bytes, piece.offset, source.size_bytes_);
  }
  source.begin_ = piece.offset;
  source.piece_bytes_ = piece.size_bytes;
  source.size_bytes_ = piece.size_bytes;
  if (auto more = open_input(piece.more_path); more.ok()) {
    ASSIGN_OR_RETURN(const uint64_t more_bytes, more->size_bytes());
    source.size_bytes_ = std::max(source.size_bytes_, more_bytes);
    source.more_ = *std::move(more);
  }
  return source;
}

Status ByteSource::look_again() {
  if (!file_.is_open() || piece_bytes_ != 0) return {};
  ASSIGN_OR_RETURN(size_bytes_, file_.size_bytes());
  return {};
}

Result<ByteView> ByteSource::view(uint64_t offset, size_t size_bytes,
                                  std::vector<std::byte>& scratch) const {
  if (offset > size_bytes_ || size_bytes > size_bytes_ - offset) {
    return fail(Errc::kCorrupt, "{} bytes are needed at byte {}, but the file ends at {}",
                size_bytes, offset, size_bytes_);
  }
  if (!file_.is_open()) return bytes_.subspan(offset, size_bytes);
  if (scratch.size() < size_bytes) scratch.resize(size_bytes);
  const MutableByteView out = MutableByteView(scratch).first(size_bytes);
  // A read is a page or a ring, and never spans both files.
  const bool behind = piece_bytes_ != 0 && offset >= piece_bytes_;
  RETURN_IF_ERROR(behind ? more_.read_exactly_at(offset, out)
                         : file_.read_exactly_at(begin_ + offset, out));
  return ByteView(out);
}

}  // namespace millrace::trace
