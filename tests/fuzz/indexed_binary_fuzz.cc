// Any bytes may be the two indexes of DLIO's indexed binary: the first half is the offsets, the
// second the sizes.
#include "tests/fuzz/sample_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::format;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  constexpr uint64_t kDataBytes = 64;
  io::MemoryEngine engine;
  put(engine, "x", std::string(kDataBytes, 'x'));
  put(engine, "x.off.idx", content.substr(0, size / 2));
  put(engine, "x.sz.idx", content.substr(size / 2));
  const auto samples = (*open_format("indexed_binary"))->index(engine, "x");
  if (!samples.ok()) return 0;
  for (uint64_t i = 0; i < samples->count(); ++i) {
    data::Span span{samples->offset_bytes + i * samples->record_bytes, samples->record_bytes};
    if (samples->kind == data::FileSamples::Kind::kListed) span = samples->spans[i];
    if (span.offset_bytes > kDataBytes) std::abort();
    if (span.size_bytes > kDataBytes - span.offset_bytes) std::abort();
  }
  return 0;
}
