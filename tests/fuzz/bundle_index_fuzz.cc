// Any bytes may be the index of a TensorFlow checkpoint. Checksums are also ignored, to get behind
// them.
#include <cstddef>
#include <cstdint>

#include "bench/checkpoint/bundle_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace::bench;
  const millrace::ByteView bytes = std::as_bytes(std::span(data, size));
  const auto verified = parse_bundle_index(bytes);
  const auto index = parse_bundle_index(bytes, BlockChecksums::kIgnore);
  if (verified.ok() && !index.ok()) __builtin_trap();
  if (!index.ok()) return 0;
  for (const StoredTensor& tensor : index->tensors) {
    if (tensor.shard >= index->shard_count || tensor.key.empty()) __builtin_trap();
  }
  return 0;
}
