// Any bytes may be a zip file of arrays. They are read twice: unchanged, and with corrected
// checksums of stored members, to reach the arrays behind them.
#include <cstring>

#include "base/io/gzip.h"
#include "format/records/zip.h"
#include "tests/fuzz/sample_format.h"

namespace {

using namespace millrace;

// In the central directory, the checksum is 30 bytes before the name.
void make_checksums_right(std::string& content) {
  const auto members = format::list_zip(bytes_of(content));
  if (!members.ok()) return;
  for (const format::ZipMember& member : *members) {
    if (member.is_deflated) continue;
    const uint32_t crc = zip_crc32(member.packed);
    const auto name_at = static_cast<size_t>(member.name.data() - content.data());
    std::memcpy(content.data() + name_at - 30, &crc, sizeof(crc));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string content(reinterpret_cast<const char*>(data), size);
  const auto npz = *format::open_format("npz");
  format::read_as(*npz, content);
  make_checksums_right(content);
  format::read_as(*npz, content);
  return 0;
}
