#include <array>

#include "base/hash/crc32_fold.h"
#include "base/io/gzip.h"

namespace millrace {
namespace {

Error no_gzip() {
  return fail(Errc::kUnsupported,
              "this build cannot read or write gzip; install zlib (zlib1g-dev) and build again, or "
              "use the file without .gz");
}

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0xedb88320u : 0u);
    table[i] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

Result<std::unique_ptr<GzipWriter>> GzipWriter::create(int) { return no_gzip(); }

Result<std::unique_ptr<GzipWriter>> GzipWriter::create_raw(int) { return no_gzip(); }

Result<std::unique_ptr<GzipReader>> GzipReader::create() { return no_gzip(); }

uint32_t zip_crc32(ByteView bytes, uint32_t before) {
  const auto extend = [](uint32_t crc, ByteView more) {
    for (const std::byte byte : more) {
      crc = crc >> 8 ^ kTable[(crc ^ std::to_integer<uint32_t>(byte)) & 0xff];
    }
    return crc;
  };
  uint32_t crc = ~before;
  const Crc32Folded folded = crc32_fold(bytes, crc);
  if (folded.size_bytes > 0) crc = extend(0, folded.bytes);
  return ~extend(crc, bytes.subspan(folded.size_bytes));
}

}  // namespace millrace
