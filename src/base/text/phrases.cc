#include "base/text/phrases.h"

#include <fmt/core.h>
#include <time.h>

#include "base/text/units.h"

namespace millrace {

std::string counted(uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", format_exact(count), count == 1 ? one : many);
}

std::string utc_text(int64_t wall_ns) {
  const time_t seconds = wall_ns / 1'000'000'000;
  tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "an unknown time";
  char text[64];
  const size_t length = strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return std::string(text, length);
}

}  // namespace millrace
