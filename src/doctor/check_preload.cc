#include <fmt/core.h>

#include "base/system/subprocess.h"
#include "doctor/checks.h"

namespace millrace::doctor {

// Preloads libm, which cat does not use, into cat and looks for it in cat's memory map.
std::vector<Finding> check_preload() {
  Finding finding;
  finding.name = "preload";
  const auto maps =
      run_subprocess({"cat", "/proc/self/maps"}, {.environment = {{"LD_PRELOAD", "libm.so.6"}}});
  if (maps.ok() && maps->output.find("libm") != std::string::npos) {
    finding.fact = "LD_PRELOAD is honoured by a new process";
    return {std::move(finding)};
  }
  finding.state = State::kFailed;
  finding.fact = maps.ok() ? "LD_PRELOAD had no effect on a new process" : maps.error().message();
  finding.without = "programs cannot be traced, or served by the store, without changing them";
  finding.fix = "use a dynamic linker that honours it (glibc; not a static cat, not setuid)";
  return {std::move(finding)};
}

}  // namespace millrace::doctor
