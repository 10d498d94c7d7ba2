// RegionsPass: what the regions of a trace show before everything else is read.
//
// Only blocks with regions are decoded. The first bytes of each block tell whether it has any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/context.h"

namespace millrace::analyze {

// The time in which regions of a thread had this epoch or step (-1: none).
struct MarkedSpan {
  StepSpan span;
  trace::ThreadIndex thread{};
};

struct RegionsPass {
  std::map<trace::NameIndex, Role> roles;  // of the names of regions
  std::vector<bool> thread_computes;       // indexed by thread
  std::vector<bool> thread_trains;         // indexed by thread: computes, waits or saves, and does
                                           // not only load data
  std::vector<uint64_t> compute_regions;   // indexed by process
  std::vector<Interval> training_spans;    // indexed by process: from the first to the last, with
                                           // waits and fetches
  std::vector<Interval> device_spans;      // indexed by process: the same for the accelerator
  std::map<trace::ProcessIndex, std::vector<MarkedSpan>> spans;  // unordered, with duplicates
  std::vector<LongRegion> long_regions;  // sorted by thread, then begin; outer regions first
  // Unordered. They last until the calls that complete their files.
  std::map<trace::ProcessIndex, std::vector<StepSpan>> checkpoints;
  std::vector<std::string> problems;
};

RegionsPass read_regions(const trace::Trace& trace, const Options& options);

}  // namespace millrace::analyze
