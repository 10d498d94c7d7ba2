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

// When regions of a thread carried an epoch or a step (-1: not).
struct MarkedSpan {
  StepSpan span;
  trace::ThreadIndex thread{};
};

struct RegionsPass {
  std::map<trace::NameIndex, Role> roles;  // of the names that regions have
  std::vector<bool> thread_computes;       // by thread
  std::vector<bool> thread_trains;         // likewise: computes, waits, saves; not only prepares
  std::vector<uint64_t> compute_regions;   // by process
  std::map<trace::ProcessIndex, std::vector<MarkedSpan>> spans;  // in no order, several times
  std::vector<LongRegion> long_regions;  // by thread, then begin, the outer first
  std::map<trace::ProcessIndex, std::vector<StepSpan>> checkpoints;  // in no order
  std::vector<std::string> problems;
};

RegionsPass read_regions(const trace::Trace& trace, const Options& options);

}  // namespace millrace::analyze
