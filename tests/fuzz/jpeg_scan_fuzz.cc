// Any bytes may be a JPEG that is taken apart into its restart intervals.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "bench/generate/images/jpeg_scan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const auto scan = bench::parse_jpeg_scan(std::as_bytes(std::span(data, size)));
  if (!scan.ok()) return 0;
  for (const bench::JpegInterval& interval : scan->intervals) {
    if (interval.bytes.size() != interval.free_bits.size()) std::abort();
    for (size_t i = 0; i < interval.bytes.size(); ++i) {
      const std::byte changed = interval.bytes[i] | interval.free_bits[i];
      if (changed == std::byte{0xff} && interval.bytes[i] != changed) std::abort();
    }
    uint32_t last = 0;
    for (const bench::JpegInterval::End& end : interval.ends) {
      if (end.size_bytes < last || end.size_bytes > interval.size_bytes) std::abort();
      last = end.size_bytes;
    }
  }
  return 0;
}
