// Metric: computes one part of a profile, block by block.
//
// The result of a metric must not depend on the order of blocks: several threads observe at once,
// and blocks may be divided among ranks. A metric therefore collects from a block in local
// variables, then takes its lock once per block. What it has seen can be saved as bytes and merged
// into another metric of the same kind that observed other blocks of the same trace: indices
// (names, processes, groups) mean the same in both.
#pragma once

#include <cstddef>
#include <vector>

#include "analyze/context.h"
#include "analyze/profile/profile.h"
#include "base/bytes.h"
#include "base/result.h"
#include "trace/read/columns.h"

namespace millrace::analyze {

// A block that metrics observe. All its events belong to one process.
struct Block {
  const Context& context;
  const trace::EventColumns& columns;
  size_t index = 0;  // in Trace::blocks()
  trace::ProcessIndex process{};
  GroupIndex group{};
};

class Metric {
 public:
  virtual ~Metric() = default;

  // May be called by several threads at once.
  virtual void observe(const Block& block) = 0;

  // Appends everything that was seen.
  virtual void save(std::vector<std::byte>& out) const = 0;

  // Adds what another metric saved. Invalid bytes are an error. They may have been added in part,
  // so the result is wrong after an error and must not be used.
  virtual Status merge(ByteReader& saved) = 0;

  // Writes its part of the profile. Called once, after all blocks. Metrics finish in the order of
  // the table in scan.cc and may use what earlier ones wrote.
  virtual void finish(const Context& context, Profile& profile) = 0;
};

}  // namespace millrace::analyze
