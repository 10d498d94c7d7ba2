#include <fmt/core.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/io/file.h"
#include "base/result.h"
#include "doctor/checks.h"
#include "doctor/fix.h"

namespace millrace::doctor {
namespace {

constexpr unsigned kOpcodeMax = 256;

// How many operations the kernel's io_uring supports; 0 if it cannot say (before 5.6).
unsigned count_operations(int ring) {
  std::vector<std::byte> memory(sizeof(io_uring_probe) + kOpcodeMax * sizeof(io_uring_probe_op));
  if (syscall(__NR_io_uring_register, ring, IORING_REGISTER_PROBE, memory.data(), kOpcodeMax) !=
      0) {
    return 0;
  }
  uint8_t count = 0;
  std::memcpy(&count, memory.data() + offsetof(io_uring_probe, ops_len), sizeof(count));
  return count;
}

std::string kernel_release() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "unknown";
}

Finding refused(int os_error) {
  Finding finding;
  finding.name = "io_uring";
  finding.state = State::kMissing;
  finding.fact = fmt::format("cannot set up a ring: {}", describe_os_error(os_error));
  finding.without = "cold and direct reads use threads, which costs more CPU";
  switch (os_error) {
    case ENOSYS:
      finding.fix =
          fmt::format("use a kernel 5.6 or newer with io_uring (this is {})", kernel_release());
      break;
    case EPERM:
    case EACCES:
      finding.fix = as_root("sysctl kernel.io_uring_disabled=0") +
                    ", or use a container profile (seccomp) that permits it";
      break;
    case ENOMEM:
      finding.fix = "raise the locked-memory limit: ulimit -l";
      break;
    default:
      finding.fix = "none known";
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_io_uring() {
  io_uring_params parameters{};
  const auto ring_fd = static_cast<int>(syscall(__NR_io_uring_setup, 8, &parameters));
  if (ring_fd < 0) return {refused(errno)};
  const File ring(ring_fd);
  const unsigned operations = count_operations(ring.fd());
  Finding finding;
  finding.name = "io_uring";
  finding.fact =
      fmt::format("a ring was set up, {} operations (kernel {})", operations, kernel_release());
  finding.figures = {{"operations", operations}};
  return {std::move(finding)};
}

}  // namespace millrace::doctor
