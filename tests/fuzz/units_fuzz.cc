// Any text is a size, a duration or an error; a value that is printed and parsed again is the same.
#include <cstdint>
#include <cstdlib>

#include "base/text/text.h"
#include "base/text/units.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto bytes = millrace::parse_bytes(text); bytes.ok()) {
    for (const auto units : {millrace::ByteUnits::kBinary, millrace::ByteUnits::kDecimal}) {
      const auto again = millrace::parse_bytes(millrace::format_bytes(*bytes, units));
      // It is printed with three digits, so compare within half a percent; EiB and EB are not
      // parsed.
      const bool beyond = *bytes >= uint64_t{1} << 59;
      if (!beyond && (!again.ok() || *again > *bytes + *bytes / 100 + 1)) std::abort();
    }
  }
  if (const auto duration = millrace::parse_duration(text); duration.ok()) {
    if (millrace::format_duration(*duration).empty()) std::abort();
  }
  if (!millrace::is_utf8(millrace::printable(text))) std::abort();
  if (millrace::display_width(millrace::shorten(text, 10)) > 10) std::abort();
  return 0;
}
