// Any bytes may be an npy file, as one sample and as rows. A header that is written and read back
// is the same.
#include "format/arrays/npy.h"
#include "tests/fuzz/sample_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::format;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  read_as(**open_format("npy"), content);
  read_as(**open_format("npy", {.rows = true}), content);
  const auto header = parse_npy_header(bytes_of(content));
  if (!header.ok()) return 0;
  const auto written = npy_header(header->type, header->shape);
  if (!written.ok()) std::abort();
  const auto again = parse_npy_header(bytes_of(*written));
  if (!again.ok() || again->type != header->type || again->shape != header->shape) std::abort();
  return 0;
}
