#include "trace/source.h"

#include <fcntl.h>

namespace millrace::trace {

Result<Source> Source::from_file(const std::string& path) {
  ASSIGN_OR_RETURN(File file, File::open(path, O_RDONLY));
  ASSIGN_OR_RETURN(const uint64_t size_bytes, file.size_bytes());
  return Source(std::move(file), size_bytes);
}

Result<ByteView> Source::view(uint64_t offset, size_t size_bytes,
                              std::vector<std::byte>& scratch) const {
  if (offset > size_bytes_ || size_bytes > size_bytes_ - offset) {
    return fail(Errc::kCorrupt, "{} bytes are needed at byte {}, but the file ends at {}",
                size_bytes, offset, size_bytes_);
  }
  if (!file_.is_open()) return bytes_.subspan(offset, size_bytes);
  if (scratch.size() < size_bytes) scratch.resize(size_bytes);
  const MutableByteView out = MutableByteView(scratch).first(size_bytes);
  RETURN_IF_ERROR(file_.read_exactly_at(offset, out));
  return ByteView(out);
}

}  // namespace millrace::trace
