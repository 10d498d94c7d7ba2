// ByteReader never reads outside its bytes, whatever the calls; a varint has only one encoding.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/bytes.h"
#include "doctor/probe_block.h"

namespace {

void check_varint(millrace::ByteReader& reader, millrace::ByteView all) {
  const size_t before = reader.position();
  const auto value = reader.read_varint();
  if (!value.ok()) {
    if (reader.position() != before) std::abort();
    return;
  }
  std::byte spelled[10];
  millrace::ByteWriter writer(spelled);
  if (!writer.write_varint(*value).ok()) std::abort();
  const auto read = all.subspan(before, reader.position() - before);
  if (writer.written().size() != read.size()) std::abort();
  if (std::memcmp(writer.written().data(), read.data(), read.size()) != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const millrace::ByteView all(reinterpret_cast<const std::byte*>(data), size);
  millrace::ByteReader reader(all);
  while (const auto choice = reader.read<uint8_t>()) {
    switch (*choice % 4) {
      case 0:
        static_cast<void>(reader.read<uint64_t>().ok());
        break;
      case 1:
        check_varint(reader, all);
        break;
      case 2:
        static_cast<void>(reader.take(*choice).ok());
        break;
      default:
        static_cast<void>(reader.take(~size_t{0} - *choice).ok());
    }
    if (reader.position() > size) std::abort();
  }
  static_cast<void>(
      millrace::doctor::verify_probe_blocks(all, 0, 0, millrace::doctor::Depth::kWhole).ok());
  return 0;
}
