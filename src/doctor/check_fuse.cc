#include <fcntl.h>
#include <fmt/core.h>

#include "base/io/file.h"
#include "base/system/subprocess.h"
#include "doctor/checks.h"
#include "doctor/fix.h"

namespace millrace::doctor {

std::vector<Finding> check_fuse() {
  Finding finding;
  finding.name = "fuse";
  const auto device = File::open("/dev/fuse", O_RDWR);
  const std::string helper = find_in_path("fusermount3");
  if (device.ok() && !helper.empty()) {
    finding.fact = fmt::format("/dev/fuse opens, {} found", helper);
    return {std::move(finding)};
  }
  finding.state = State::kMissing;
  finding.without =
      "the store cannot be mounted for static binaries; preload still serves the rest";
  if (!device.ok()) {
    finding.fact = device.error().message();
    finding.fix = device.error().code() == Errc::kNotFound
                      ? as_root("modprobe fuse") + ", or docker run --device /dev/fuse"
                      : "request access to /dev/fuse (docker run --device /dev/fuse)";
  } else {
    finding.fact = "/dev/fuse opens, but there is no fusermount3";
    finding.fix = install_command("fuse3", "fusermount3");
  }
  return {std::move(finding)};
}

}  // namespace millrace::doctor
