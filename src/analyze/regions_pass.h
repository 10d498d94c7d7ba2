// RegionsPass: what the regions of a trace tell before everything else is read.
//
// Only blocks that hold regions are decoded; which ones do is seen from the first bytes of each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/context.h"

namespace millrace::analyze {

struct RegionsPass {
  std::map<trace::NameIndex, Role> roles;  // of the names that regions have
  std::vector<bool> thread_computes;       // by thread
  std::vector<uint64_t> compute_regions;   // by process
  // By process: (epoch, step), -1 where there is none, and from when to when.
  std::map<trace::ProcessIndex, std::map<std::pair<int64_t, int64_t>, Interval>> spans;
  std::vector<LongRegion> long_regions;  // by thread, then begin, the outer first
  std::map<trace::ProcessIndex, std::vector<StepSpan>> checkpoints;  // in no order
  std::vector<std::string> problems;
};

RegionsPass read_regions(const trace::Trace& trace, const Options& options);

}  // namespace millrace::analyze
