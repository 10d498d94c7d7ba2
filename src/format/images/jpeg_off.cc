#include "format/images/jpeg.h"

namespace millrace::format {
namespace {

Error lacking() {
  return fail(Errc::kUnsupported,
              "this build cannot read or write JPEG; install libjpeg-turbo (libjpeg-dev) and build "
              "again");
}

}  // namespace

Result<std::unique_ptr<JpegReader>> JpegReader::create(const JpegOptions&) { return lacking(); }

Result<std::vector<std::byte>> write_jpeg(const image::ImageView&, const JpegWriteOptions&) {
  return lacking();
}

}  // namespace millrace::format
