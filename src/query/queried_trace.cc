#include "query/queried_trace.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "analyze/scan.h"
#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/system/cpus.h"

namespace millrace::query {
namespace {

// Each has 65,536 events and takes about five megabytes. Enough for one window of time of several
// processes.
constexpr size_t kKeptBlocks = 16;

}  // namespace

QueriedTrace::QueriedTrace(const trace::Trace& trace, Options options)
    : trace_(trace), options_(std::move(options)) {
  begin_ns_ = std::numeric_limits<uint64_t>::max();
  for (const trace::BlockInfo& block : trace.blocks()) {
    begin_ns_ = std::min(begin_ns_, block.begin_ns);
  }
  if (trace.blocks().empty()) begin_ns_ = 0;
}

void QueriedTrace::note_problem(size_t block, const std::string& sentence) {
  if (bad_blocks_.insert(block).second) problems_.push_back(sentence);
}

const analyze::Context& QueriedTrace::context() {
  if (!context_) {
    // Blocks that it cannot read are reported when they are read for their events.
    std::vector<std::string> problems;
    context_.emplace(analyze::make_context(trace_, options_.analyze, problems));
  }
  return *context_;
}

Result<const std::vector<analyze::FileStats>*> QueriedTrace::files() {
  if (!files_) RETURN_IF_ERROR(read_files());
  return &*files_;
}

// Uses the metrics of the report, so that both agree about a file. Without a limit, so that all
// files are listed.
Status QueriedTrace::read_files() {
  analyze::Limits limits;
  limits.files = std::numeric_limits<size_t>::max();
  limits.groups = 0;
  const analyze::Context& of = context();
  const auto checkpoints = analyze::make_checkpoints_metric(of, limits);
  const auto files = analyze::make_files_metric(of, limits);
  const size_t threads =
      options_.analyze.threads != 0 ? options_.analyze.threads : usable_cpu_count();
  ThreadPool pool(std::max<size_t>(1, threads - 1));  // the calling thread works too
  Mutex mutex;
  RETURN_IF_ERROR(pool.parallel_for(trace_.blocks().size(), [&](size_t index) -> Status {
    if (stopped()) return fail(Errc::kCancelled, "interrupted");
    thread_local trace::EventColumns columns;
    if (const Status read = trace_.read_block(index, columns); !read.ok()) {
      const MutexLock lock(mutex);
      note_problem(index, read.error().message());
      return {};
    }
    const trace::ProcessIndex process = trace_.blocks()[index].process;
    const analyze::Block block{.context = of,
                               .columns = columns,
                               .index = index,
                               .process = process,
                               .group = of.group(process)};
    checkpoints->observe(block);
    files->observe(block);
    if (options_.progress) options_.progress(columns.size_events());
    return {};
  }));
  analyze::Profile profile;
  checkpoints->finish(of, profile);
  files->finish(of, profile);
  files_ = std::move(profile.files);
  return {};
}

const trace::EventColumns* QueriedTrace::read_block(size_t index, trace::EventColumns& columns) {
  const Status read = trace_.read_block(index, columns);
  if (!read.ok()) {
    note_problem(index, read.error().message());
    return nullptr;
  }
  ++counters_.blocks_read;
  if (options_.progress) options_.progress(columns.size_events());
  return &columns;
}

std::shared_ptr<const trace::EventColumns> QueriedTrace::read_kept_block(size_t index) {
  const auto found = std::find_if(kept_.begin(), kept_.end(),
                                  [&](const Kept& kept) { return kept.index == index; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return found->columns;
  }
  Kept fresh{.index = index, .columns = nullptr};
  if (kept_.size() >= kKeptBlocks) {
    if (kept_.back().columns.use_count() == 1) fresh.columns = std::move(kept_.back().columns);
    kept_.pop_back();
  }
  if (fresh.columns == nullptr) fresh.columns = std::make_shared<trace::EventColumns>();
  if (read_block(index, *fresh.columns) == nullptr) return nullptr;
  kept_.push_front(fresh);
  return fresh.columns;
}

const trace::Process* QueriedTrace::process_of(trace::ThreadIndex thread) const {
  if (static_cast<size_t>(thread) >= trace_.threads().size()) return nullptr;
  const auto process = static_cast<size_t>(trace_.threads()[static_cast<size_t>(thread)].process);
  return process < trace_.processes().size() ? &trace_.processes()[process] : nullptr;
}

int32_t QueriedTrace::rank_of(trace::ProcessIndex process) {
  if (!ranks_) {
    // Groups follow from the process table, so no blocks are read.
    analyze::Options options;
    options.wants_block = [](const trace::BlockInfo&) { return false; };
    std::vector<std::string> problems;
    const analyze::Context groups = analyze::make_context(trace_, options, problems);
    ranks_.emplace();
    for (const analyze::GroupIndex group : groups.group_of) {
      ranks_->push_back(groups.groups[static_cast<size_t>(group)].rank);
    }
  }
  const auto index = static_cast<size_t>(process);
  return index < ranks_->size() ? (*ranks_)[index] : -1;
}

std::string_view QueriedTrace::host_of(const trace::Process& process) const {
  if (process.session >= trace_.sessions().size()) return {};
  return trace_.sessions()[process.session].host;
}

}  // namespace millrace::query
