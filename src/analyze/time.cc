// The time metric: records what each rank was doing at any time, and splits the time accordingly at
// the end.
#include <array>
#include <mutex>

#include "analyze/scan.h"
#include "analyze/time_profile.h"
#include "base/cpus.h"

namespace millrace::analyze {
namespace {

using SpansByClass = std::array<std::vector<Interval>, kTimeClassCount>;

void collect_spans(const Block& block, SpansByClass& spans) {
  const Context& context = block.context;
  const trace::EventColumns& columns = block.columns;
  const bool is_main = context.groups[static_cast<size_t>(block.group)].main == block.process;
  for (size_t i = 0; i < columns.size_events(); ++i) {
    const CallTraits& traits = traits_of(columns.call[i]);
    TimeClass of{};
    if (traits.io) {
      of = class_of_io(traits.layer, is_main);
    } else if (traits.region) {
      const Role role = context.role(columns.file[i]);
      const bool waits =
          layer_of(role) == Layer::kLoader && is_waiting(context, role, columns.thread[i]);
      of = class_of_region(role, waits);
    } else {
      continue;
    }
    const uint64_t begin_ns = columns.begin_ns[i];
    const uint64_t end_ns = begin_ns + columns.duration_ns[i];
    // A span that wraps around the clock is invalid and is ignored.
    spans[static_cast<size_t>(of)].push_back({begin_ns, end_ns});
  }
}

class TimeMetric final : public Metric {
 public:
  TimeMetric(const Context& context, const Limits& limits) : context_(context), limits_(limits) {}

  void observe(const Block& block) override {
    // Reused for all blocks of a thread: it takes one or two megabytes.
    thread_local SpansByClass spans;
    for (auto& list : spans) list.clear();
    collect_spans(block, spans);
    TimeRuns runs;
    for (size_t i = 0; i < spans.size(); ++i) {
      runs.add(time_tag(block.group, static_cast<TimeClass>(i)), spans[i]);
    }
    const std::lock_guard lock(mutex_);
    runs_.append(std::move(runs));
  }

  void save(std::vector<std::byte>& out) const override { runs_.save(out); }

  Status merge(ByteReader& saved) override {
    return runs_.merge(saved, [this](uint64_t tag) {
      return tag >> kTimeClassBits < context_.groups.size() &&
             (tag & kTimeClassMask) < static_cast<uint64_t>(TimeClass::kStep);
    });
  }

  void finish(const Context& context, Profile& profile) override {
    const TimeSet present = swept_classes(context, runs_);
    profile.time.basis = context.has_wait_regions ? WaitBasis::kRegions : basis_of(present);
    const TimePlan plan(present, profile.time.basis);
    const auto swept = sweep_time(context, runs_, plan, usable_cpu_count());
    if (!swept.ok()) {
      profile.problems.push_back("the time split could not be computed: " +
                                 swept.error().message());
      return;
    }
    write_time(context, plan, *swept, profile);
    write_epochs(context, plan, *swept, profile);
    write_steps(context, limits_, *swept, profile);
  }

 private:
  const Context& context_;
  const Limits limits_;
  std::mutex mutex_;
  TimeRuns runs_;  // guarded by mutex_ while blocks are observed
};

}  // namespace

std::unique_ptr<Metric> make_time_metric(const Context& context, const Limits& limits) {
  return std::make_unique<TimeMetric>(context, limits);
}

}  // namespace millrace::analyze
