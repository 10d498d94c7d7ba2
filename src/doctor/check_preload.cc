#include <fmt/core.h>

#include "base/subprocess.h"
#include "doctor/checks.h"

namespace millrace::doctor {

// Puts the C library's own libm, which cat does not use, in front of it and looks whether it is
// there.
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
  finding.without = "programs can be neither traced nor served by the store without changes";
  finding.mend = "use a dynamic linker that honours it (glibc; not a static cat, not setuid)";
  return {std::move(finding)};
}

}  // namespace millrace::doctor
