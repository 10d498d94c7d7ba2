// Any bytes may be the index of indexed samples. They are read twice: unchanged, and with corrected
// checksums and a matching header of the data file.
#include <cstring>
#include <span>

#include "base/hash/crc32c.h"
#include "format/arrays/indexed.h"
#include "tests/fuzz/sample_format.h"
#include "wire/indexed_file.h"

namespace {

using namespace millrace;
using wire::IndexedDataHeader;
using wire::IndexedIndexHeader;

template <typename Header>
void seal(Header& header) {
  header.crc32c = crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, crc32c)));
}

void check(ByteView index_file, const IndexedDataHeader& data, uint64_t data_bytes) {
  const auto samples =
      format::parse_indexed(index_file, std::as_bytes(std::span(&data, 1)), data_bytes);
  if (!samples.ok()) return;
  if (samples->spans.size() != data.sample_count) std::abort();
  if (samples->checksums.size() != data.sample_count) std::abort();
  for (const data::Span& span : samples->spans) {
    if (span.offset_bytes > data_bytes || span.size_bytes > data_bytes - span.offset_bytes) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string file(reinterpret_cast<const char*>(bytes), size);
  IndexedDataHeader data{};
  data.magic = wire::kIndexedDataMagic;
  data.version = wire::kIndexedVersion;
  check(bytes_of(file), data, sizeof(data));
  if (size < sizeof(IndexedIndexHeader)) return 0;
  IndexedIndexHeader index;
  std::memcpy(&index, file.data(), sizeof(index));
  index.magic = wire::kIndexedIndexMagic;
  index.version = wire::kIndexedVersion;
  index.tables_crc32c = crc32c(bytes_of(file).subspan(sizeof(index)));
  seal(index);
  std::memcpy(file.data(), &index, sizeof(index));
  data.identity = index.identity;
  data.sample_count = index.sample_count;
  data.data_bytes = index.data_bytes;
  seal(data);
  check(bytes_of(file), data, index.data_bytes);
  return 0;
}
