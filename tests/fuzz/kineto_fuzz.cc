// Any bytes are a trace of torch.profiler, or an error; what is read fits a trace.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "interop/kineto.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace::interop;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = parse_kineto(text);
  if (!read.ok()) return 0;
  uint64_t last_ns = 0;
  std::string storage;
  for (const KinetoEvent& event : read->events) {
    const uint64_t end_ns = event.wall_ns + event.duration_ns;
    if (end_ns < event.wall_ns || end_ns < last_ns) std::abort();
    last_ns = end_ns;
    event.name.text(storage);
  }
  if (read->rank >= read->world_size && read->rank >= 0) std::abort();
  return 0;
}
