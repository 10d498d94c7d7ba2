// scaling: how a program scales with ranks or hosts, from the profiles of several jobs.
//
// Each job is compared with the smallest one: per epoch if all jobs mark epochs, else per step if
// all mark steps (assuming equal work per rank and step), else as a whole. The dataset
// distinguishes strong scaling (the same total work) from weak scaling (work grows with the ranks).
// One formula, work over time, gives the speed-up for both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/profile/profile.h"
#include "base/system/terminal.h"
#include "base/text/json_writer.h"
#include "report/compare.h"

namespace millrace::report {

enum class ScalingKind : uint8_t {
  kNone,    // no jobs, or all of the same size
  kStrong,  // the same total work
  kWeak,    // the same work per rank
  kMixed,   // neither
};
inline constexpr std::string_view kScalingKindNames[] = {"none", "strong", "weak", "mixed"};

struct ScalingRow {
  std::string name;  // the trace, as given by the user
  uint64_t hosts = 0;
  uint32_t ranks = 0;
  double wall_ns = 0;
  double unit_ns = 0;      // of one epoch, one step or the job: Scaling::per
  double epoch_ns = 0;     // mean; 0: not marked
  double step_ns = 0;      // mean; 0: not marked
  double gigabyte_ns = 0;  // wall time per 10^9 bytes of data read; 0: nothing was read
  double speed_up = 0;     // work over time, relative to the smallest job; 0: unknown
  double efficiency = 0;   // speed-up over the ratio of ranks (or hosts)
  double io_share = 0;     // of a rank's time
  double io_exposed_share = 0;
  double wait_share = 0;
  double read_bandwidth = 0;  // bytes/s of all ranks together over the wall time
};

struct Scaling {
  ScalingKind kind{};
  Per per{};
  bool against_hosts = false;    // all have the same number of ranks: compare by hosts
  std::vector<ScalingRow> rows;  // smallest job first
};

// 0: none are marked.
double mean_epoch_ns(const analyze::Profile& profile);

Scaling scaling_of(std::span<const analyze::Profile> profiles);

// At most `terminal.columns` wide.
std::string scaling_text(const Scaling& scaling, const Terminal& terminal);

// Writes "scaling_kind", "scaling_per", "scaling_against" and "scaling" into the open object of
// `json`; see docs/formats/report.md.
void write_scaling(JsonWriter& json, const Scaling& scaling);

}  // namespace millrace::report
