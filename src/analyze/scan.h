// Scan: reads a trace once, in parallel, and computes its profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "analyze/context.h"
#include "analyze/metric.h"
#include "analyze/profile/profile.h"
#include "base/result.h"
#include "trace/trace.h"

namespace millrace::analyze {

// The maximum lengths of the lists in a profile.
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

// The blocks that this process scans: those whose number modulo `count` is `index`.
struct BlockShare {
  size_t index = 0;
  size_t count = 1;
};

class Scan {
 public:
  // `trace` must outlive this.
  Scan(const trace::Trace& trace, Options options, Limits limits);
  ~Scan();

  const Context& context() const;

  // Observes the blocks of a share with all threads. Blocks that cannot be read are listed in the
  // problems of the profile.
  void run(BlockShare share, const std::function<void(uint64_t events)>& progress);

  // Used to send what one share has seen and to merge it into another.
  std::vector<std::byte> save() const;
  Status merge(ByteView saved);

  // Call once, at the end.
  Profile finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Scans the whole trace in this process.
Profile profile_of(const trace::Trace& trace, const Options& options = {},
                   const Limits& limits = {});

// The metrics, one per file.
std::unique_ptr<Metric> make_job_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_functions_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_files_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_order_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_samples_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_time_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_epochs_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_timeline_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_tree_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_stalls_metric(const Context& context, const Limits& limits);
std::unique_ptr<Metric> make_checkpoints_metric(const Context& context, const Limits& limits);

}  // namespace millrace::analyze
