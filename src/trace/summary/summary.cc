#include "trace/summary/summary.h"

#include <algorithm>

#include "base/concurrency/mutex.h"
#include "base/concurrency/thread_pool.h"
#include "base/system/cpus.h"
#include "trace/summary/untraced.h"

namespace millrace::trace {
namespace {

using wire::Call;
using wire::CallKind;

bool moves_bytes(Call call) {
  const wire::CallInfo* info = wire::call_info(call);
  if (info == nullptr) return false;
  return info->kind == CallKind::kRead || info->kind == CallKind::kWrite ||
         info->kind == CallKind::kTransfer;
}

bool names_a_file(Call call) {
  return wire::level_of(call) != wire::Level::kApp && wire::level_of(call) != wire::Level::kNone;
}

// The totals of one block.
struct BlockTotals {
  std::map<Call, CallTotals> calls;
  std::vector<NameIndex> files;
  std::vector<ProgramStart> starts;
  uint64_t mapped_bytes = 0;
  uint64_t mapped_present_bytes = 0;
  bool entered_sandbox = false;
};

BlockTotals total(const EventColumns& columns, ProcessIndex process) {
  BlockTotals totals;
  Call last_call = Call::kEmpty;
  CallTotals* call_totals = nullptr;
  bool counts_bytes = false;
  for (size_t i = 0; i < columns.size_events(); ++i) {
    const Call call = columns.call[i];
    if (call_totals == nullptr || call != last_call) {
      call_totals = &totals.calls[call];
      counts_bytes = moves_bytes(call);
      last_call = call;
    }
    ++call_totals->events;
    call_totals->duration_ns += columns.duration_ns[i];
    if (columns.error[i] != 0) ++call_totals->errors;
    if (counts_bytes && columns.result[i] > 0) {
      call_totals->bytes += static_cast<uint64_t>(columns.result[i]);
    }
    if (names_a_file(call) && columns.file[i] != NameIndex{} &&
        (totals.files.empty() || totals.files.back() != columns.file[i])) {
      totals.files.push_back(columns.file[i]);
    }
    if (call == Call::kMapped) {
      totals.mapped_bytes += columns.size[i];
      totals.mapped_present_bytes += static_cast<uint64_t>(std::max<int64_t>(0, columns.result[i]));
    }
    if (call == Call::kSeccomp && columns.error[i] == 0) totals.entered_sandbox = true;
    const bool starts = call == Call::kExec || call == Call::kPosixSpawn;
    if (starts && columns.error[i] == 0 && columns.result[i] >= 0) {
      totals.starts.push_back({.process = process,
                               .begin_ns = columns.begin_ns[i],
                               .child_pid = call == Call::kPosixSpawn ? columns.detail[i] : 0,
                               .program = columns.file[i]});
    }
  }
  std::sort(totals.files.begin(), totals.files.end());
  totals.files.erase(std::unique(totals.files.begin(), totals.files.end()), totals.files.end());
  return totals;
}

// Merges the totals of the blocks.
class Collector {
 public:
  Collector(const Trace& trace, Summary& summary)
      : summary_(summary), is_file_(trace.names().size()) {
    summary_.process_events.resize(trace.processes().size());
  }

  void add(const BlockInfo& block, BlockTotals totals) {
    const MutexLock lock(mutex_);
    summary_.process_events[static_cast<size_t>(block.process)] += block.event_count;
    for (const auto& [call, one] : totals.calls) {
      CallTotals& all = summary_.calls[call];
      all.events += one.events;
      all.errors += one.errors;
      all.duration_ns += one.duration_ns;
      all.bytes += one.bytes;
    }
    for (const NameIndex file : totals.files) is_file_[static_cast<size_t>(file)] = true;
    starts_.insert(starts_.end(), totals.starts.begin(), totals.starts.end());
    if (totals.entered_sandbox) summary_.not_itemised.sandboxed.push_back(block.process);
    summary_.not_itemised.mapped_bytes += totals.mapped_bytes;
    summary_.not_itemised.mapped_present_bytes += totals.mapped_present_bytes;
  }

  void add_problem(const Error& error) {
    const MutexLock lock(mutex_);
    summary_.problems.push_back(error.message());
  }

  uint64_t file_count() const {
    const MutexLock lock(mutex_);
    return static_cast<uint64_t>(std::count(is_file_.begin(), is_file_.end(), true));
  }
  std::vector<ProgramStart> starts() const {
    const MutexLock lock(mutex_);
    return starts_;
  }

 private:
  mutable Mutex mutex_;
  Summary& summary_ GUARDED_BY(mutex_);
  std::vector<bool> is_file_ GUARDED_BY(mutex_);
  std::vector<ProgramStart> starts_ GUARDED_BY(mutex_);
};

uint64_t events_of(const Summary& summary, Call call) {
  const auto found = summary.calls.find(call);
  return found == summary.calls.end() ? 0 : found->second.events;
}

}  // namespace

Summary summarise(const Trace& trace) {
  Summary summary;
  summary.problems = trace.problems();
  summary.events = trace.event_count();
  summary.begin_ns = ~uint64_t{0};
  for (const Session& session : trace.sessions()) summary.hosts.insert(session.host);
  for (const Process& process : trace.processes()) {
    if (process.rank >= 0) summary.ranks.insert(process.rank);
    summary.not_itemised.major_faults += process.major_faults;
    summary.not_itemised.minor_faults += process.minor_faults;
  }
  for (const BlockInfo& block : trace.blocks()) {
    summary.begin_ns = std::min(summary.begin_ns, block.begin_ns);
    summary.end_ns = std::max(summary.end_ns, block.end_ns);
  }
  if (trace.blocks().empty()) summary.begin_ns = 0;
  Collector collector(trace, summary);
  const size_t cpus = std::max<size_t>(1, usable_cpu_count());
  ThreadPool pool(cpus);
  const Status done = pool.parallel_for(trace.blocks().size(), [&](size_t i) -> Status {
    thread_local EventColumns columns;
    const Status read = trace.read_block(i, columns);
    if (read.ok()) {
      collector.add(trace.blocks()[i], total(columns, trace.blocks()[i].process));
    } else {
      collector.add_problem(read.error());
    }
    return {};
  });
  if (!done.ok()) {
    summary.problems.push_back("the trace was not read completely: " + done.error().message());
  }
  summary.files = collector.file_count();
  NotItemised& rest = summary.not_itemised;
  rest.mmap_calls = events_of(summary, Call::kMmap);
  rest.mappings_ended = events_of(summary, Call::kMapped);
  rest.io_uring_setups = events_of(summary, Call::kIoUringSetup);
  rest.io_uring_enters = events_of(summary, Call::kIoUringEnter);
  std::sort(rest.sandboxed.begin(), rest.sandboxed.end());
  rest.untraced = find_untraced(trace, collector.starts());
  return summary;
}

std::string level_name(wire::Level level) {
  const auto number = static_cast<size_t>(level);
  return number < wire::kLevelCount ? wire::kLevelNames[number] : fmt::format("level {}", number);
}

std::string call_name(Call call) {
  const wire::CallInfo* info = wire::call_info(call);
  return info != nullptr ? info->name : fmt::format("call {:#x}", static_cast<uint16_t>(call));
}

}  // namespace millrace::trace
