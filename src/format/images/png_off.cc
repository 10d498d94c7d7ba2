#include "format/images/png.h"

namespace millrace::format {
namespace {

Error lacking() {
  return fail(Errc::kUnsupported,
              "this build cannot read or write PNG; install libpng (libpng-dev) and build again");
}

}  // namespace

Result<std::unique_ptr<PngReader>> PngReader::create(const PngOptions&) { return lacking(); }

Result<std::vector<std::byte>> write_png(const image::ImageView&, const PngWriteOptions&) {
  return lacking();
}

}  // namespace millrace::format
