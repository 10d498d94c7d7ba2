// ObserveBlocks: shows the blocks of a trace to one metric, in several ways, for its tests.
//
// What a metric finds must be the same in all of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyze/context.h"
#include "analyze/metric.h"
#include "analyze/scan.h"

namespace millrace::analyze {

using MetricMaker = std::unique_ptr<Metric> (*)(const Context& context, const Limits& limits);

// The blocks first, first + step, first + 2 * step, ...
struct Choice {
  size_t first = 0;
  size_t step = 1;
};

// REQUIRES: the blocks can be read.
inline void observe_blocks(const Context& context, Choice choice, Metric& metric) {
  trace::EventColumns columns;
  for (size_t i = choice.first; i < context.trace.blocks().size(); i += choice.step) {
    if (!context.trace.read_block(i, columns).ok()) return;
    const trace::ProcessIndex process = context.trace.blocks()[i].process;
    metric.observe({.context = context,
                    .columns = columns,
                    .index = i,
                    .process = process,
                    .group = context.group(process)});
  }
}

inline Profile profile_by(const Context& context, MetricMaker make, const Limits& limits = {}) {
  const auto metric = make(context, limits);
  observe_blocks(context, {}, *metric);
  Profile profile;
  metric->finish(context, profile);
  return profile;
}

// Two metrics see every other block; a third one, which saw none, takes in both, the later one
// first. A merge that fails shows as a profile that lacks everything.
inline Profile profile_by_shares(const Context& context, MetricMaker make,
                                 const Limits& limits = {}) {
  const auto whole = make(context, limits);
  Profile profile;
  for (const size_t first : {size_t{1}, size_t{0}}) {
    const auto share = make(context, limits);
    observe_blocks(context, {.first = first, .step = 2}, *share);
    std::vector<std::byte> saved;
    share->save(saved);
    ByteReader reader(saved);
    if (!whole->merge(reader).ok() || !reader.at_end()) return profile;
  }
  whole->finish(context, profile);
  return profile;
}

}  // namespace millrace::analyze
