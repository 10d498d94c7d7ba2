#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdlib>

#include "base/io/file.h"
#include "base/text/units.h"
#include "doctor/checks.h"
#include "doctor/fix.h"

namespace millrace::doctor {
namespace {

std::string shown(rlim_t limit, bool bytes) {
  if (limit == RLIM_INFINITY) return "unlimited";
  return bytes ? format_bytes(limit) : format_exact(limit);
}

struct LimitQuestion {
  std::string_view name;
  int resource;
  rlim_t wanted;
  bool bytes;
  std::string_view without;
  std::string_view shell_option;     // for ulimit
  std::string_view limits_conf_key;  // for /etc/security/limits.conf
};

Finding ask(const LimitQuestion& question) {
  rlimit limit{};
  getrlimit(static_cast<__rlimit_resource_t>(question.resource), &limit);
  Finding finding;
  finding.name = question.name;
  finding.fact = fmt::format("{} (up to {})", shown(limit.rlim_cur, question.bytes),
                             shown(limit.rlim_max, question.bytes));
  finding.figures = {{"soft", static_cast<double>(limit.rlim_cur)},
                     {"hard", static_cast<double>(limit.rlim_max)}};
  if (limit.rlim_cur >= question.wanted) return finding;
  finding.state = State::kLimited;
  finding.without = question.without;
  finding.fix =
      limit.rlim_max >= question.wanted
          ? fmt::format("ulimit {0} $(ulimit -H {0})", question.shell_option)
          : fmt::format("add '* - {} unlimited' to /etc/security/limits.conf, log in again",
                        question.limits_conf_key);
  return finding;
}

Finding map_count_finding() {
  constexpr double kWanted = 65'530;  // the kernel's own default
  Finding finding;
  finding.name = "memory maps";
  const auto content = read_file("/proc/sys/vm/max_map_count", 64);
  if (!content.ok()) {
    finding.fact = "unknown: " + content.error().message();
    return finding;
  }
  const double count = std::atof(content->c_str());
  finding.fact = fmt::format("{} per process", format_exact(static_cast<uint64_t>(count)));
  finding.figures = {{"count", count}};
  if (count < kWanted) {
    finding.state = State::kLimited;
    finding.without = "programs with thousands of threads cannot be traced completely";
    finding.fix = as_root("sysctl vm.max_map_count=262144");
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_limits() {
  const LimitQuestion open_files = {"open files",
                                    RLIMIT_NOFILE,
                                    4096,
                                    false,
                                    "a loader with many files in flight runs out of descriptors",
                                    "-n",
                                    "nofile"};
  const LimitQuestion locked_memory = {"locked memory",
                                       RLIMIT_MEMLOCK,
                                       rlim_t{64} << 20,
                                       true,
                                       "registered io_uring buffers and pinned batches stay small",
                                       "-l",
                                       "memlock"};
  return {ask(open_files), ask(locked_memory), map_count_finding()};
}

}  // namespace millrace::doctor
