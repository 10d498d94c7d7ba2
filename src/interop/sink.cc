#include "interop/sink.h"

#include "base/text/text.h"

namespace millrace::interop {

Sink::Sink(std::string path, AtomicFile file, std::unique_ptr<GzipWriter> gzip)
    : path_(std::move(path)), file_(std::move(file)), gzip_(std::move(gzip)) {
  buffer_.reserve(kBufferBytes + kBufferBytes / 4);
}

Result<Sink> Sink::create(const std::string& path) {
  std::unique_ptr<GzipWriter> gzip;
  if (path.ends_with(".gz")) {
    // On 5 MB of events, level 4 was 7 % larger than level 6 and 1.6 times as fast.
    ASSIGN_OR_RETURN(gzip, GzipWriter::create(4).within(printable(path)));
  }
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  return Sink(path, std::move(file), std::move(gzip));
}

Status Sink::write(std::string_view bytes) {
  written_bytes_ += bytes.size();
  return file_.append(bytes_of(bytes));
}

Status Sink::flush() {
  if (gzip_ == nullptr) {
    RETURN_IF_ERROR(write(buffer_));
  } else {
    compressed_.clear();
    RETURN_IF_ERROR(gzip_->append(buffer_, compressed_).within(printable(path_)));
    RETURN_IF_ERROR(write(compressed_));
  }
  buffer_.clear();
  return {};
}

Status Sink::finish() {
  RETURN_IF_ERROR(flush());
  if (gzip_ != nullptr) {
    compressed_.clear();
    RETURN_IF_ERROR(gzip_->finish(compressed_).within(printable(path_)));
    RETURN_IF_ERROR(write(compressed_));
  }
  return file_.commit();
}

}  // namespace millrace::interop
