#include "trace/read/clock_doubt.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>

#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::trace {
namespace {

// Launchers start the ranks of a large job over some time, and ranks end one after the other.
constexpr int64_t kDoubtNs = 2'000'000'000;

struct HostRanks {
  std::set<int32_t> ranks;
  int32_t world_size = 0;
  uint64_t begin_ns = ~uint64_t{0};
  uint64_t end_ns = 0;
  bool is_by_wall_clock = false;
};

std::map<std::string, HostRanks> ranks_by_host(const std::vector<Session>& sessions,
                                               const std::vector<Process>& processes) {
  std::map<std::string, HostRanks> hosts;
  for (const Process& process : processes) {
    if (process.rank < 0 || process.world_size < 2) continue;
    const Session& session = sessions[process.session];
    HostRanks& host = hosts[session.host];
    host.ranks.insert(process.rank);
    host.world_size = std::max(host.world_size, process.world_size);
    host.begin_ns = std::min(host.begin_ns, process.start_ns);
    host.end_ns = std::max(host.end_ns, process.end_ns);
    host.is_by_wall_clock = host.is_by_wall_clock || session.alignment == "wall clock";
  }
  return hosts;
}

// Two jobs in one directory have the same ranks, and may well run one after the other.
bool are_one_job(const HostRanks& a, const HostRanks& b) {
  return a.world_size == b.world_size &&
         std::none_of(a.ranks.begin(), a.ranks.end(),
                      [&](int32_t rank) { return b.ranks.contains(rank); });
}

// How much later the ranks of `host` ran; 0 if that may be as it is.
int64_t delay_of(const HostRanks& host, const HostRanks& first) {
  const auto begin = static_cast<int64_t>(host.begin_ns - first.begin_ns);
  const auto end = static_cast<int64_t>(host.end_ns - first.end_ns);
  const bool is_shifted = (begin > 0) == (end > 0);
  const int64_t least = std::min(std::abs(begin), std::abs(end));
  if (!is_shifted || least < kDoubtNs) return 0;
  return begin > 0 ? least : -least;
}

}  // namespace

std::vector<std::string> doubtful_clocks(const std::vector<Session>& sessions,
                                         const std::vector<Process>& processes) {
  const auto hosts = ranks_by_host(sessions, processes);
  const auto first = std::min_element(hosts.begin(), hosts.end(), [](const auto& a, const auto& b) {
    return *a.second.ranks.begin() < *b.second.ranks.begin();
  });
  std::vector<std::string> doubts;
  for (const auto& [name, host] : hosts) {
    if (name == first->first || (!host.is_by_wall_clock && !first->second.is_by_wall_clock))
      continue;
    const int64_t delay_ns = are_one_job(host, first->second) ? delay_of(host, first->second) : 0;
    if (delay_ns == 0) continue;
    doubts.push_back(fmt::format(
        "the ranks of {} seem to run {} {} than those of {}, but nothing has compared the clocks of "
        "these hosts: one of them is probably off by that much, and the job was shorter than shown; "
        "set the clocks with NTP or PTP",
        printable(name), format_duration(std::chrono::nanoseconds(std::abs(delay_ns))),
        delay_ns > 0 ? "later" : "earlier", printable(first->first)));
  }
  return doubts;
}

}  // namespace millrace::trace
