#include "analyze/files/file_content.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/io/file.h"

namespace millrace::analyze {
namespace {

using std::string_view_literals::operator""sv;

struct Magic {
  std::string_view bytes;
  std::string_view content;
};
constexpr Magic kMagics[] = {
    {"\x1f\x8b"sv, "gzip"},
    {"\x28\xb5\x2f\xfd"sv, "zstd"},
    {"\xfd\x37zXZ\0"sv, "xz"},
    {"BZh"sv, "bzip2"},
    {"\x04\x22\x4d\x18"sv, "lz4"},
    {"\x89HDF\r\n\x1a\n"sv, "hdf5"},
    {"\x93NUMPY"sv, "numpy"},
    {"\xff\xd8\xff"sv, "image"},  // JPEG
    {"\x89PNG\r\n\x1a\n"sv, "image"},
    {"GIF8"sv, "image"},
    {"II*\0"sv, "image"},  // TIFF
    {"MM\0*"sv, "image"},
};

// A local header: signature, version, flags, method.
constexpr std::string_view kZip = "PK\x03\x04"sv;
constexpr size_t kZipMethodAt = 8;

// Bytes of UTF-8 and the control characters that text has.
bool is_text(std::string_view bytes) {
  const auto is_control = [](unsigned char c) {
    return (c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f || c == 0xc0 || c >= 0xf8;
  };
  constexpr size_t kShortest = 8;
  return bytes.size() >= kShortest && std::none_of(bytes.begin(), bytes.end(), is_control) &&
         bytes.find_first_of(" \n\t,") != std::string_view::npos;
}

}  // namespace

std::string_view content_of(ByteView first_bytes) {
  const std::string_view bytes = text_of(first_bytes);
  for (const Magic& magic : kMagics) {
    if (bytes.starts_with(magic.bytes)) return magic.content;
  }
  if (bytes.size() > 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP")
    return "image";
  if (bytes.starts_with(kZip) && bytes.size() > kZipMethodAt + 1) {
    return bytes.substr(kZipMethodAt, 2) == "\0\0"sv ? "zip stored" : "zip";
  }
  return is_text(bytes) ? "text" : "";
}

std::string_view content_of_file(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  const auto file = File::open(path, O_RDONLY | O_NONBLOCK);
  std::array<std::byte, 512> room;
  if (!file.ok()) return "";
  const auto read = file->read_at(0, room);
  if (!read.ok()) return "";
  const std::string_view content = content_of(ByteView(room).first(*read));
  if (content != "text") return content;
  // A header may be text, and what follows not.
  const auto middle = file->read_at(static_cast<uint64_t>(status.st_size) / 2, room);
  return middle.ok() && is_text(text_of(ByteView(room).first(*middle))) ? content : "";
}

}  // namespace millrace::analyze
