#include "report/testing/compared_jobs.h"

#include <sstream>

namespace millrace::report {

using analyze::FunctionStats;
using analyze::Layer;
using analyze::Profile;
using analyze::TimeSplit;

TimeSplit split(const std::string& name) {
  return {.name = name,
          .wall_ns = 20 * kSecond,
          .compute_ns = 15 * kSecond,
          .io_ns = 8 * kSecond,
          .wait_ns = 3 * kSecond,
          .io_overlapped_ns = 5 * kSecond,
          .io_exposed_ns = 3 * kSecond,
          .step_ns = 19 * kSecond,
          .wait_share = 0.15};
}

namespace {

FunctionStats read_function() {
  return {.name = "read",
          .layer = Layer::kPosix,
          .kind = wire::CallKind::kRead,
          .count = 20'000,
          .time_ns = 18 * kSecond,
          .bytes = 2'000'000'000,
          .size_bytes = {.count = 20'000, .median = 100'000},
          .latency_ns = {.count = 20'000, .median = 800'000, .p99 = 5 * kMs}};
}

}  // namespace

Profile training() {
  Profile profile;
  profile.job = {.traces = {"t"},
                 .hosts = {"node1"},
                 .ranks = 2,
                 .wall_ns = 20 * kSecond,
                 .dataset_bytes = 1'000'000'000,
                 .dataset_bytes_read = 2'000'000'000,
                 .bytes_read = 2'000'000'000,
                 .epochs = 2,
                 .steps = 100};
  profile.time = {.basis = analyze::WaitBasis::kRegions,
                  .job = split("job"),
                  .mean = split("mean"),
                  .ranks = {split("rank 0"), split("rank 1")}};
  profile.layers = {{.layer = Layer::kApplication,
                     .count = 400,
                     .time_ns = 40 * kSecond,
                     .busy_ns = 38 * kSecond,
                     .overlapped_ns = 30 * kSecond},
                    {.layer = Layer::kPosix,
                     .count = 22'000,
                     .time_ns = 20 * kSecond,
                     .busy_ns = 16 * kSecond,
                     .overlapped_ns = 10 * kSecond,
                     .bytes_read = 2'000'000'000,
                     .metadata_count = 2'000,
                     .metadata_ns = 2 * kSecond}};
  profile.functions = {{.name = "compute",
                        .layer = Layer::kApplication,
                        .kind = wire::CallKind::kRegion,
                        .role = analyze::Role::kCompute,
                        .count = 200,
                        .time_ns = 30 * kSecond,
                        .latency_ns = {.count = 200, .median = 150 * kMs, .p99 = 160 * kMs}},
                       read_function(),
                       {.name = "open",
                        .layer = Layer::kPosix,
                        .kind = wire::CallKind::kOpen,
                        .count = 2'000,
                        .time_ns = 2 * kSecond,
                        .latency_ns = {.count = 2'000, .median = 900'000, .p99 = 4 * kMs}}};
  profile.kinds = {{.name = "data",
                    .io = {.opens = 2'000,
                           .reads = 20'000,
                           .bytes_read = 2'000'000'000,
                           .read_ns = 18 * kSecond,
                           .metadata_ns = 2 * kSecond},
                    .files = 1'000}};
  profile.extensions = profile.kinds;
  profile.extensions[0].name = ".jpg";
  for (const char* name : {"rank 0", "rank 1"}) {
    profile.ranks.push_back({.name = name, .io = {.bytes_read = 1'000'000'000}});
  }
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    profile.epochs.push_back({.epoch = epoch,
                              .begin_ns = static_cast<uint64_t>(epoch) * 10 * kSecond,
                              .end_ns = static_cast<uint64_t>(epoch + 1) * 10 * kSecond,
                              .steps = 50,
                              .time = {.compute_ns = 7'500 * kMs, .wait_ns = 1'500 * kMs}});
  }
  const double step_ns = 190e6;
  profile.steps.duration_ns = {
      .count = 200, .mean = step_ns, .median = 190 * kMs, .p99 = 250 * kMs};
  profile.steps.wait_ns = {.count = 200, .mean = 30e6, .median = 30 * kMs, .p99 = 60 * kMs};
  return profile;
}

std::vector<std::string> described(const Comparison& comparison) {
  std::vector<std::string> out;
  for (const Difference& one : comparison.differences) {
    if (one.minor) continue;
    std::ostringstream line;
    line << kByNames[static_cast<size_t>(one.by)] << " " << one.name << ": " << one.measure << " "
         << kChangeNames[static_cast<size_t>(one.change)] << (one.regression ? " !" : "");
    out.push_back(line.str());
  }
  return out;
}

const Difference* find(const Comparison& comparison, By by, const std::string& measure) {
  for (const Difference& one : comparison.differences) {
    if (one.by == by && one.measure == measure) return &one;
  }
  return nullptr;
}

}  // namespace millrace::report
