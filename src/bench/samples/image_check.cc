// Images are checked without decoding them (check_image() of sample_check.h).
#include "base/io/gzip.h"
#include "bench/samples/sample_check.h"
#include "format/images/jpeg.h"
#include "format/images/png.h"

namespace millrace::bench {
namespace {

constexpr size_t kPngSignatureBytes = 8;
constexpr size_t kPngChunkHeadBytes = 8;  // length, type
constexpr size_t kPngCrcBytes = 4;

uint32_t number_be(ByteView bytes) {
  uint32_t number = 0;
  for (const std::byte byte : bytes) number = number << 8 | std::to_integer<uint32_t>(byte);
  return number;
}

// Whether it begins a frame. These segments have a length; the others stand alone.
constexpr bool is_frame(uint32_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

Error jpeg_cut(ByteView image) {
  return fail(Errc::kCorrupt, "the JPEG image was cut short or damaged: {} bytes without its end",
              image.size());
}

// An FF in a scan is followed by 00 or the number of a restart, so only the end is FF D9.
Status check_jpeg_end(ByteView image, size_t scan_at) {
  for (size_t at = image.size(); at >= scan_at + 2; --at) {
    if (image[at - 1] == std::byte{0xd9} && image[at - 2] == std::byte{0xff}) return {};
  }
  return jpeg_cut(image);
}

Status check_jpeg(ByteView image) {
  bool has_frame = false;
  for (size_t at = 2; at + 4 <= image.size();) {
    if (image[at] != std::byte{0xff}) {
      return fail(Errc::kCorrupt, "the JPEG image is damaged: no marker at byte {}", at);
    }
    const auto marker = std::to_integer<uint32_t>(image[at + 1]);
    if (marker == 0xff) {  // a marker may have several of these in front
      ++at;
      continue;
    }
    const size_t length = number_be(image.subspan(at + 2, 2));
    if (length < 2 || length > image.size() - at - 2) return jpeg_cut(image);
    at += 2 + length;
    has_frame = has_frame || is_frame(marker);
    if (marker != 0xda) continue;
    if (has_frame) return check_jpeg_end(image, at);
    return fail(Errc::kCorrupt, "the JPEG image is damaged: its scan has no frame");
  }
  return jpeg_cut(image);
}

Status check_png(ByteView image) {
  bool has_pixels = false;
  for (size_t at = kPngSignatureBytes;;) {
    const ByteView rest = image.subspan(at);
    if (rest.size() < kPngChunkHeadBytes + kPngCrcBytes) break;
    const size_t length = number_be(rest.first(4));
    if (length > rest.size() - kPngChunkHeadBytes - kPngCrcBytes) break;
    const std::string_view type = text_of(rest.subspan(4, 4));
    if (at == kPngSignatureBytes && type != "IHDR") {
      return fail(Errc::kCorrupt, "the PNG image is damaged: it does not begin with its header");
    }
    const uint32_t found = zip_crc32(rest.subspan(4, 4 + length));
    const uint32_t said = number_be(rest.subspan(kPngChunkHeadBytes + length, kPngCrcBytes));
    if (found != said) {
      return fail(Errc::kCorrupt,
                  "the PNG image is damaged: the chunk at byte {} has the checksum {:08x}, "
                  "expected {:08x}",
                  at, found, said);
    }
    has_pixels = has_pixels || type == "IDAT";
    if (type == "IEND" && has_pixels) return {};
    at += kPngChunkHeadBytes + length + kPngCrcBytes;
  }
  return fail(Errc::kCorrupt, "the PNG image was cut short or damaged: {} bytes without its end",
              image.size());
}

}  // namespace

Status check_image(ByteView image) {
  if (format::is_jpeg(image)) return check_jpeg(image);
  if (format::is_png(image)) return check_png(image);
  return fail(Errc::kCorrupt, "the {} bytes are not a JPEG or PNG image", image.size());
}

}  // namespace millrace::bench
