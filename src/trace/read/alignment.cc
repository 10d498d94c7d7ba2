#include "trace/read/alignment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace millrace::trace {
namespace {

// Monotonic and wall time run at the same rate, apart from steps. A difference beyond what clock
// discipline may cause (500 ppm) is a step. Two samples closer than the baseline show only noise.
constexpr double kDriftMax = 500e-6;
constexpr int64_t kDriftBaselineNs = 1'000'000'000;

// y = y0 + (x - x0) * (1 + drift), in a form that keeps all bits of 63-bit nanoseconds.
struct Line {
  int64_t x0 = 0;
  int64_t y0 = 0;
  double drift = 0;

  int64_t at(int64_t x) const {
    const int64_t since = x - x0;
    return y0 + since + static_cast<int64_t>(std::llround(drift * static_cast<double>(since)));
  }
  Line inverse() const { return {y0, x0, 1 / (1 + drift) - 1}; }
};

struct HostClock {
  wire::ClockSample first{};
  wire::ClockSample last{};
  bool has_rank_0 = false;
  const ProcessEntry* peer = nullptr;  // the best measurement
  Line wall;                           // wall time from the monotonic clock
  uint64_t wall_uncertainty_ns = 0;
  Line reference;  // the reference's monotonic clock from this one
  std::string alignment;
  uint64_t uncertainty_ns = 0;
};

using HostKey = std::pair<std::string, std::string>;
using Hosts = std::map<HostKey, HostClock>;

HostKey key_of(const Session& session) { return {session.host, session.boot_id}; }

uint64_t peer_uncertainty(const ProcessEntry& process) {
  return std::max(process.peer[0].uncertainty_ns, process.peer[1].uncertainty_ns);
}

// Two measurements also give the drift, which is worth more than one with a small uncertainty.
bool measured_better(const ProcessEntry& a, const ProcessEntry& b) {
  const auto rank = [](const ProcessEntry& process) {
    return std::pair(process.peer[1].uncertainty_ns == 0, peer_uncertainty(process));
  };
  return rank(a) < rank(b);
}

Hosts gather(const std::vector<AlignmentInput>& inputs) {
  Hosts hosts;
  for (const AlignmentInput& input : inputs) {
    const SessionClock& clock = input.session->clock;
    if (!clock.known) continue;
    const auto [found, is_new] = hosts.try_emplace(key_of(input.session->session));
    HostClock& host = found->second;
    if (is_new || clock.first.monotonic_ns < host.first.monotonic_ns) host.first = clock.first;
    for (const auto& sample : {clock.first, clock.last}) {
      if (sample.monotonic_ns > host.last.monotonic_ns) host.last = sample;
    }
    for (const ProcessEntry* process : input.processes) {
      host.has_rank_0 = host.has_rank_0 || process->process.rank == 0;
      if (process->peer[0].uncertainty_ns == 0) continue;
      if (host.peer == nullptr || measured_better(*process, *host.peer)) host.peer = process;
    }
  }
  return hosts;
}

void find_wall(HostClock& host) {
  host.wall = {static_cast<int64_t>(host.first.monotonic_ns), host.first.wall_ns, 0};
  host.wall_uncertainty_ns = host.first.uncertainty_ns;
  const auto elapsed = static_cast<int64_t>(host.last.monotonic_ns - host.first.monotonic_ns);
  if (elapsed <= 0) return;
  const int64_t slip = host.last.wall_ns - host.first.wall_ns - elapsed;
  const double drift = static_cast<double>(slip) / static_cast<double>(elapsed);
  host.wall_uncertainty_ns = std::max(host.first.uncertainty_ns, host.last.uncertainty_ns);
  if (std::abs(drift) > kDriftMax) {
    // The wall clock was set in between. Trust its later value.
    host.wall = {static_cast<int64_t>(host.last.monotonic_ns), host.last.wall_ns, 0};
    host.wall_uncertainty_ns += static_cast<uint64_t>(std::abs(slip));
  } else if (elapsed >= kDriftBaselineNs) {
    host.wall.drift = drift;
  }
}

const HostClock* choose_reference(const Hosts& hosts) {
  const HostClock* earliest = nullptr;
  const HostClock* with_rank_0 = nullptr;
  size_t rank_0_count = 0;
  for (const auto& [key, host] : hosts) {
    if (earliest == nullptr || host.first.wall_ns < earliest->first.wall_ns) earliest = &host;
    if (!host.has_rank_0) continue;
    with_rank_0 = &host;
    ++rank_0_count;
  }
  return rank_0_count == 1 ? with_rank_0 : earliest;
}

void align_by_mpi(HostClock& host) {
  const PeerClock& begin = host.peer->peer[0];
  const PeerClock& end = host.peer->peer[1];
  const auto at = static_cast<int64_t>(begin.at_ns);
  host.reference = {at, at + begin.offset_ns, 0};
  if (end.uncertainty_ns != 0 && end.at_ns > begin.at_ns) {
    host.reference.drift = static_cast<double>(end.offset_ns - begin.offset_ns) /
                           static_cast<double>(end.at_ns - begin.at_ns);
  }
  host.alignment = "MPI";
  host.uncertainty_ns = peer_uncertainty(*host.peer);
}

void align_by_wall(HostClock& host, const HostClock& reference) {
  const Line back = reference.wall.inverse();
  host.reference = {host.wall.x0, back.at(host.wall.y0),
                    (1 + host.wall.drift) * (1 + back.drift) - 1};
  host.alignment = "wall clock";
  host.uncertainty_ns = host.wall_uncertainty_ns + reference.wall_uncertainty_ns;
}

void align_hosts(Hosts& hosts, const HostClock* reference) {
  for (auto& [key, host] : hosts) find_wall(host);
  for (auto& [key, host] : hosts) {
    if (&host == reference) {
      const auto first = static_cast<int64_t>(host.first.monotonic_ns);
      host.reference = {first, first, 0};
      host.alignment = hosts.size() == 1 ? "one host" : "reference host";
      host.uncertainty_ns = host.first.uncertainty_ns;
    } else if (host.peer != nullptr && reference->has_rank_0) {
      align_by_mpi(host);
    } else {
      align_by_wall(host, *reference);
    }
  }
}

}  // namespace

Alignment align_sessions(const std::vector<AlignmentInput>& inputs) {
  Alignment alignment;
  alignment.maps.resize(inputs.size());
  if (inputs.empty()) return alignment;
  Hosts hosts = gather(inputs);
  const HostClock* reference = choose_reference(hosts);
  align_hosts(hosts, reference);
  // Without any recorded session, the common clock is the wall clock itself.
  const Line wall_to_reference = reference == nullptr ? Line{} : reference->wall.inverse();
  int64_t zero = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < inputs.size(); ++i) {
    SessionEntry& entry = *inputs[i].session;
    ClockMap& map = alignment.maps[i];
    if (!entry.clock.known) {
      map.reference_ns = wall_to_reference.at(inputs[i].file_origin_wall_ns);
      map.drift = wall_to_reference.drift;
      zero = std::min(zero, map.reference_ns);
      continue;
    }
    const HostClock& host = hosts.at(key_of(entry.session));
    const auto first = static_cast<int64_t>(entry.clock.first.monotonic_ns);
    map.reference_ns = host.reference.at(first);
    map.drift = host.reference.drift;
    zero = std::min(zero, map.reference_ns);
    entry.session.offset_ns = host.wall.at(first) - reference->wall.at(map.reference_ns);
    entry.session.drift_ppm = map.drift * 1e6;
    entry.session.uncertainty_ns = host.uncertainty_ns;
    entry.session.alignment = host.alignment;
  }
  for (ClockMap& map : alignment.maps) map.reference_ns -= zero;
  alignment.origin_wall_ns = reference == nullptr ? zero : reference->wall.at(zero);
  return alignment;
}

}  // namespace millrace::trace
