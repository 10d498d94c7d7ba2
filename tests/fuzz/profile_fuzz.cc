// Any bytes are a profile or an error. A profile that is written and read back is the same, and can
// be compared.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "analyze/profile/profile_json.h"
#include "analyze/profile/profile_read.h"
#include "base/text/json.h"
#include "report/compare.h"
#include "report/scaling.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  using namespace millrace::analyze;
  const auto profile = parse_profile({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!profile.ok()) {
    if (profile.error().message().find("fuzz.json:") != 0) std::abort();
    return 0;
  }
  const std::string text = profile_json(*profile);
  const auto again = parse_profile(text, "again.json");
  if (!again.ok() || profile_json(*again) != text) std::abort();
  // Meaningless numbers must do no harm either.
  const Profile empty;
  const Profile* const pairs[][2] = {
      {&empty, &*profile}, {&*profile, &empty}, {&*profile, &*again}};
  for (const auto& [before, after] : pairs) {
    const report::Comparison comparison = report::compare(*before, *after);
    (void)report::compare_text(comparison, {.top = 0}, Terminal());
    if (!parse_json(report::compare_json(comparison, {.top = 0}), "json").ok()) std::abort();
    if (after == &*again && !comparison.differences.empty()) std::abort();
  }
  const Profile both[] = {*profile, empty};
  (void)report::scaling_text(report::scaling_of(both), Terminal());
  return 0;
}
