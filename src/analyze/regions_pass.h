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
  // By process: when a region carried an epoch or a step (-1: not), in no order, several times.
  std::map<trace::ProcessIndex, std::vector<StepSpan>> spans;
  std::vector<LongRegion> long_regions;  // by thread, then begin, the outer first
  std::map<trace::ProcessIndex, std::vector<StepSpan>> checkpoints;  // in no order
  std::vector<std::string> problems;
};

RegionsPass read_regions(const trace::Trace& trace, const Options& options);

}  // namespace millrace::analyze
