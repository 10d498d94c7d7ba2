#include "doctor/fix.h"

#include <fmt/core.h>
#include <unistd.h>

#include "base/system/subprocess.h"

namespace millrace::doctor {

std::string as_root(std::string_view command) {
  return geteuid() == 0 ? std::string(command) : fmt::format("sudo {}", command);
}

std::string install_command(std::string_view debian_package, std::string_view provides) {
  if (find_in_path("apt-get").empty()) {
    return fmt::format("install what provides {} (on Debian: {})", provides, debian_package);
  }
  return as_root(fmt::format("apt-get install --no-install-recommends {}", debian_package));
}

}  // namespace millrace::doctor
