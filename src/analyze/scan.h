// Scan: reads a trace once, in parallel, and makes its profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "analyze/context.h"
#include "analyze/metric.h"
#include "analyze/profile.h"
#include "base/result.h"
#include "trace/trace.h"

namespace millrace::analyze {

// How long the lists of a profile may get.
struct Limits {
  size_t files = 1000;
  size_t groups = 500;  // directories, extensions
  size_t timeline_bins = 1000;
  size_t heat_bins = 240;
  size_t heat_ranks = 256;
  size_t slowest_steps = 50;
  size_t tree_nodes = 2000;
  bool all_steps = false;
};

// Which part of the blocks this process scans: those with index % count == index.
struct BlockShare {
  size_t index = 0;
  size_t count = 1;
};

class Scan {
 public:
  // `trace` must live as long.
  Scan(const trace::Trace& trace, Options options, Limits limits);
  ~Scan();

  const Context& context() const;

  // Observes the blocks of a share on all threads. Blocks that cannot be read are told in the
  // profile's problems.
  void run(BlockShare share, const std::function<void(uint64_t events)>& progress);

  // To send what a share has seen, and to take in another's.
  std::vector<std::byte> save() const;
  Status merge(ByteView saved);

  // Once, at the end.
  Profile finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// All of it, in this process.
Profile profile_of(const trace::Trace& trace, const Options& options = {},
                   const Limits& limits = {});

// One metric a file.
std::unique_ptr<Metric> make_job_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_functions_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_files_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_order_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_time_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_epochs_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_timeline_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_tree_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_checkpoints_metric(const Context& context, const Limits& limits);

}  // namespace millrace::analyze
