// scaling: how one program gets on with more ranks or nodes, from the profiles of several jobs.
//
// Each job is held against the smallest. What a job did is taken by epoch where all mark epochs, by
// step where all mark steps (with equal work a rank and step), else as a whole. Strong scaling,
// where the work stays and is shared out, and weak scaling, where it grows with the ranks, are told
// apart by the dataset; the figures come from one formula, work over time, that holds for both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/profile.h"
#include "base/json_writer.h"
#include "base/terminal.h"
#include "report/compare.h"

namespace millrace::report {

enum class ScalingKind : uint8_t {
  kNone,    // no job, or all of one size
  kStrong,  // the same work for all
  kWeak,    // the same work for a rank
  kMixed,   // neither
};
inline constexpr std::string_view kScalingKindNames[] = {"none", "strong", "weak", "mixed"};

struct ScalingRow {
  std::string name;  // the trace as the user gave it
  uint64_t hosts = 0;
  uint32_t ranks = 0;
  double wall_ns = 0;
  double unit_ns = 0;      // of one epoch, one step or the job: Scaling::per
  double epoch_ns = 0;     // mean; 0: not marked
  double step_ns = 0;      // mean; 0: not marked
  double gigabyte_ns = 0;  // wall time for each 10^9 bytes of data read; 0: nothing was read
  double speed_up = 0;     // work over time, against that of the smallest; 0: unknown
  double efficiency = 0;   // speed-up over how many times more ranks (or hosts) there are
  double io_share = 0;     // of a rank's time
  double io_unhidden_share = 0;
  double wait_share = 0;
  double read_bandwidth = 0;  // bytes/s of all ranks together over the wall time
};

struct Scaling {
  ScalingKind kind{};
  Per per{};
  bool against_hosts = false;    // all have equally many ranks: sizes are counted in hosts
  std::vector<ScalingRow> rows;  // the smallest first
};

// 0: none are marked.
double mean_epoch_ns(const analyze::Profile& profile);

Scaling scaling_of(std::span<const analyze::Profile> profiles);

// At most `terminal.columns` wide.
std::string scaling_text(const Scaling& scaling, const Terminal& terminal);

// "scaling_kind", "scaling_per", "scaling_against" and "scaling" into the object that `json` has
// open; docs/formats/report.md.
void write_scaling(JsonWriter& json, const Scaling& scaling);

}  // namespace millrace::report
