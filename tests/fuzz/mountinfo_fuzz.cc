// Any text may be in mountinfo; a mount that is found contains the path.
#include <cstdint>

#include "base/io/mounts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(millrace::find_mount(text, "/tmp/some where/below"));
  return 0;
}
