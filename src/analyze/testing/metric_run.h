// MetricRun: runs a few metrics over a trace. For tests and benchmarks of single metrics.
//
//   MetricRun run(trace, {make_time_metric}, limits);
//   run.observe({});
//   const Profile profile = run.finish();
//
// Single-threaded. Use Scan for everything else.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyze/scan.h"

namespace millrace::analyze {

class MetricRun {
 public:
  using Maker = std::unique_ptr<Metric> (*)(const Context& context, const Limits& limits);

  // `trace` must outlive this.
  MetricRun(const trace::Trace& trace, const std::vector<Maker>& makers, const Limits& limits = {},
            const Options& options = {})
      : context_(make_context(trace, options, problems_)) {
    for (const Maker make : makers) metrics_.push_back(make(context_, limits));
  }

  const Context& context() const { return context_; }
  Metric& metric(size_t index) { return *metrics_[index]; }

  // With `backwards`, observes the last block first: the order must not matter.
  Status observe(BlockShare share, bool backwards = false) {
    const trace::Trace& trace = context_.trace;
    trace::EventColumns columns;
    for (size_t i = 0; i < trace.blocks().size(); ++i) {
      const size_t index = backwards ? trace.blocks().size() - 1 - i : i;
      if (index % share.count != share.index) continue;
      RETURN_IF_ERROR(trace.read_block(index, columns));
      const trace::ProcessIndex process = trace.blocks()[index].process;
      const Block block{.context = context_,
                        .columns = columns,
                        .index = index,
                        .process = process,
                        .group = context_.group(process)};
      for (const auto& metric : metrics_) metric->observe(block);
    }
    return {};
  }

  std::vector<std::byte> save(size_t index) const {
    std::vector<std::byte> bytes;
    metrics_[index]->save(bytes);
    return bytes;
  }

  Status merge(size_t index, ByteView saved) {
    ByteReader reader(saved);
    RETURN_IF_ERROR(metrics_[index]->merge(reader));
    if (!reader.at_end()) return fail(Errc::kCorrupt, "{} unexpected bytes", reader.remaining());
    return {};
  }

  // `profile`: what earlier metrics would have written.
  Profile finish(Profile profile = {}) {
    for (const auto& metric : metrics_) metric->finish(context_, profile);
    return profile;
  }

 private:
  std::vector<std::string> problems_;  // declared before context_, which adds to them
  Context context_;
  std::vector<std::unique_ptr<Metric>> metrics_;
};

// The profile that one metric computes from all blocks.
inline Profile profile_by(const trace::Trace& trace, MetricRun::Maker make,
                          const Limits& limits = {}) {
  MetricRun run(trace, {make}, limits);
  return run.observe({}).ok() ? run.finish() : Profile();
}

// Two metrics observe every other block each. A third one, which observed nothing, merges both, the
// later one first. If a merge fails, the profile is empty.
inline Profile profile_by_shares(const trace::Trace& trace, MetricRun::Maker make,
                                 const Limits& limits = {}) {
  MetricRun whole(trace, {make}, limits);
  for (const size_t index : {size_t{1}, size_t{0}}) {
    MetricRun share(trace, {make}, limits);
    if (!share.observe({.index = index, .count = 2}).ok()) return {};
    if (!whole.merge(0, share.save(0)).ok()) return {};
  }
  return whole.finish();
}

}  // namespace millrace::analyze
