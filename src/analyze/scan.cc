#include "analyze/scan.h"

#include <algorithm>
#include <utility>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/system/cpus.h"
#include "trace/pack/bytes_out.h"
#include "trace/summary/untraced.h"

namespace millrace::analyze {
namespace {

using MetricMaker = std::unique_ptr<Metric> (*)(const Context& context, const Limits& limits);

// The order in which metrics finish.
constexpr MetricMaker kMetrics[] = {
    make_job_metric,         make_functions_metric, make_time_metric,   make_epochs_metric,
    make_checkpoints_metric, make_files_metric,     make_order_metric,  make_timeline_metric,
    make_tree_metric,        make_samples_metric,   make_stalls_metric,
};

}  // namespace

struct Scan::State {
  State(const trace::Trace& trace_in, Options options_in, Limits limits_in)
      : options(std::move(options_in)),
        limits(limits_in),
        context(make_context(trace_in, options, problems)) {
    for (const MetricMaker make : kMetrics) metrics.push_back(make(context, limits));
  }

  Status observe(size_t index) {
    // Reused for all blocks of a thread: it takes several megabytes.
    thread_local trace::EventColumns columns;
    const trace::Trace& trace = context.trace;
    ASSIGN_OR_RETURN(const bool wanted, read_wanted(trace, options, index, columns));
    if (!wanted) return {};
    const trace::ProcessIndex process = trace.blocks()[index].process;
    const Block block{.context = context,
                      .columns = columns,
                      .index = index,
                      .process = process,
                      .group = context.group(process)};
    for (const auto& metric : metrics) metric->observe(block);
    return {};
  }

  Options options;
  Limits limits;
  std::vector<std::string> problems;  // declared before context, which adds to them
  Context context;
  std::vector<std::unique_ptr<Metric>> metrics;
};

Scan::Scan(const trace::Trace& trace, Options options, Limits limits)
    : state_(std::make_unique<State>(trace, std::move(options), limits)) {}
Scan::~Scan() = default;

const Context& Scan::context() const { return state_->context; }

void Scan::run(BlockShare share, const std::function<void(uint64_t events)>& progress) {
  const trace::Trace& trace = state_->context.trace;
  std::vector<size_t> mine;
  for (size_t i = share.index; i < trace.blocks().size(); i += share.count) mine.push_back(i);
  const size_t threads =
      state_->options.threads != 0 ? state_->options.threads : usable_cpu_count();
  // The calling thread works too.
  ThreadPool pool(std::max<size_t>(1, threads - 1));
  Mutex mutex;
  std::vector<std::pair<size_t, std::string>> problems;
  const Status done = pool.parallel_for(mine.size(), [&](size_t i) -> Status {
    if (const Status status = state_->observe(mine[i]); !status.ok()) {
      const MutexLock lock(mutex);
      problems.emplace_back(mine[i], status.error().message());
    }
    if (progress) progress(trace.blocks()[mine[i]].event_count);
    return {};
  });
  std::sort(problems.begin(), problems.end());
  for (auto& [index, sentence] : problems) state_->problems.push_back(std::move(sentence));
  if (!done.ok()) {
    state_->problems.push_back("the trace was not read completely: " + done.error().message());
  }
}

std::vector<std::byte> Scan::save() const {
  trace::BytesOut out;
  out.put_varint(state_->problems.size());
  for (const std::string& problem : state_->problems) out.put_text(problem);
  for (const auto& metric : state_->metrics) {
    std::vector<std::byte> part;
    metric->save(part);
    out.put_varint(part.size());
    out.append(part);
  }
  return std::move(out.buffer());
}

Status Scan::merge(ByteView saved) {
  ByteReader reader(saved);
  ASSIGN_OR_RETURN(const uint64_t problem_count, reader.read_varint());
  for (uint64_t i = 0; i < problem_count; ++i) {
    ASSIGN_OR_RETURN(const uint64_t length, reader.read_varint());
    ASSIGN_OR_RETURN(const std::string_view problem, reader.take_text(length));
    state_->problems.emplace_back(problem);
  }
  for (const auto& metric : state_->metrics) {
    ASSIGN_OR_RETURN(const uint64_t length, reader.read_varint());
    ASSIGN_OR_RETURN(const ByteView part, reader.take(length));
    ByteReader part_reader(part);
    RETURN_IF_ERROR(metric->merge(part_reader));
    if (!part_reader.at_end()) {
      return fail(Errc::kCorrupt, "{} unexpected bytes after the data of a metric",
                  part_reader.remaining());
    }
  }
  if (!reader.at_end()) {
    return fail(Errc::kCorrupt, "{} unexpected bytes after the last metric", reader.remaining());
  }
  return {};
}

Profile Scan::finish() {
  Profile profile;
  for (const auto& metric : state_->metrics) metric->finish(state_->context, profile);
  const auto& unreadable = state_->context.trace.problems();
  profile.problems.insert(profile.problems.begin(), unreadable.begin(), unreadable.end());
  profile.problems.insert(profile.problems.end(), state_->problems.begin(), state_->problems.end());
  for (const auto& command : trace::find_unseen_commands(state_->context.trace)) {
    profile.problems.push_back(trace::untraced_text(command));
  }
  return profile;
}

Profile profile_of(const trace::Trace& trace, const Options& options, const Limits& limits) {
  Scan scan(trace, options, limits);
  scan.run({}, {});
  return scan.finish();
}

}  // namespace millrace::analyze
