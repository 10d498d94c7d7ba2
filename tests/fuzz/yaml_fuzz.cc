// Any bytes are YAML or an error that names the file and a line; nothing throws or overflows.
#include <cstdint>
#include <cstdlib>

#include "base/text/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto document =
      millrace::parse_yaml({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!document.ok() && document.error().message().find("fuzz.yaml:") != 0) std::abort();
  return 0;
}
