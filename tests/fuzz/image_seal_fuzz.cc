// The comment with a checksum in images that bench generated.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/generate/images/image_seal.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const millrace::ByteView bytes = std::as_bytes(std::span(data, size));
  if (!millrace::bench::check_image_seal(bytes, "seed 0 train 1").ok()) {
    // What can be sealed is accepted then.
    std::vector<std::byte> room(millrace::bench::kSealRoomBytes);
    room.insert(room.end(), bytes.begin(), bytes.end());
    const auto sealed = millrace::bench::seal_image(room, "seed 0 train 1");
    if (sealed.ok() && !millrace::bench::check_image_seal(*sealed, "seed 0 train 1").ok()) {
      __builtin_trap();
    }
  }
  return 0;
}
