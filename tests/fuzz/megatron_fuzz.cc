// Any bytes may be Megatron's index. The length of the data file is the one that it claims, if that
// is small.
#include <cstring>

#include "format/arrays/megatron.h"
#include "tests/fuzz/sample_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::format;
  std::string file("MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17);
  file.append(reinterpret_cast<const char*>(data), size);
  for (const std::string& index : {file, file.substr(17)}) {
    for (const uint64_t data_bytes : {0, 4, 12, 64}) {
      for (const uint64_t window : {uint64_t{0}, uint64_t{3}, UINT64_MAX}) {
        const auto found = parse_megatron(bytes_of(index), data_bytes, window);
        if (!found.ok()) continue;
        for (const data::Span& span : found->samples.spans) {
          if (span.offset_bytes > data_bytes) std::abort();
          if (span.size_bytes > data_bytes - span.offset_bytes) std::abort();
        }
      }
    }
  }
  return 0;
}
