// Metric: one aspect of a profile, gathered block by block.
//
// A metric must not depend on the order in which blocks come: several threads observe at once, and
// blocks may be shared out over ranks. It therefore gathers what a block holds in local variables,
// then takes its lock once a block. What it has seen can be saved as bytes and merged into another
// metric of the same kind that looked at other blocks of the same trace: indices (names, processes,
// groups) mean the same in both.
#pragma once

#include <cstddef>
#include <vector>

#include "analyze/context.h"
#include "analyze/profile.h"
#include "base/bytes.h"
#include "base/result.h"
#include "trace/columns.h"

namespace millrace::analyze {

// A block under observation. All events are of one process.
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

  // Called by several threads at once.
  virtual void observe(const Block& block) = 0;

  // Appends all that was seen.
  virtual void save(std::vector<std::byte>& out) const = 0;

  // Takes in what another one saved. Bytes that make no sense are an error, and leave no harm.
  virtual Status merge(ByteReader& saved) = 0;

  // Writes its part of the profile, once, after all blocks. Metrics finish in the order of the
  // table in scan.cc and may use what those before them wrote.
  virtual void finish(const Context& context, Profile& profile) = 0;
};

}  // namespace millrace::analyze
