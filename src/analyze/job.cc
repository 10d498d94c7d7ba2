// The job metric: the processes of the job, when they ran, and the kinds of I/O they used.
#include <fcntl.h>

#include <algorithm>
#include <set>
#include <utility>

#include "analyze/scan.h"
#include "base/concurrency/mutex.h"
#include "trace/pack/bytes_out.h"

namespace millrace::analyze {
namespace {

using wire::Call;
using wire::CallKind;

// Kinds of I/O that were seen, as bits.
enum Seen : uint8_t { kDirect = 1, kMapped = 2, kUring = 4 };

struct FrameworkSign {
  std::string_view part;  // part of a path
  std::string_view framework;
};

// The first entry found in any path of the job counts. TensorFlow and JAX come before PyTorch:
// their programs often import torch for its data loaders.
constexpr FrameworkSign kFrameworks[] = {
    {"/tensorflow/", "tensorflow"}, {"libtensorflow", "tensorflow"}, {"/jaxlib/", "jax"},
    {"/torch/", "pytorch"},         {"libtorch", "pytorch"},
};

// Regions that the recorder marks in PyTorch's own functions. PyTorch's programs open files of
// TensorFlow if it is installed: its writer of TensorBoard and Transformers import it.
constexpr std::string_view kTorchRegions[] = {"backward", "optimizer", "collate"};

bool trains_with_torch(const trace::Trace& trace) {
  const std::vector<std::string>& names = trace.names();
  const auto has = [&](std::string_view part) {
    return std::ranges::any_of(
        names, [&](const std::string& name) { return name.find(part) != std::string::npos; });
  };
  const bool has_regions = std::ranges::any_of(kTorchRegions, [&](std::string_view region) {
    return std::ranges::find(names, region) != names.end();
  });
  return has_regions && (has("/torch/") || has("libtorch"));
}

std::string find_framework(const trace::Trace& trace) {
  if (trains_with_torch(trace)) return "pytorch";
  size_t best = std::size(kFrameworks);
  for (const std::string& name : trace.names()) {
    for (size_t i = 0; i < best; ++i) {
      if (name.find(kFrameworks[i].part) != std::string::npos) best = i;
    }
    if (best == 0) break;
  }
  return best == std::size(kFrameworks) ? "" : std::string(kFrameworks[best].framework);
}

uint8_t seen_in(Call call, uint32_t detail) {
  switch (traits_of(call).kind) {
    case CallKind::kOpen:
      return (detail & O_DIRECT) != 0 && wire::level_of(call) == wire::Level::kPosix ? kDirect : 0;
    case CallKind::kMap:
      return kMapped;
    default:
      return 0;
  }
}

class JobMetric : public Metric {
 public:
  void observe(const Block& block) override {
    std::set<uint32_t> threads;
    auto last = trace::ThreadIndex{~uint32_t{0}};
    uint8_t seen = 0;
    const trace::EventColumns& columns = block.columns;
    for (size_t i = 0; i < columns.size_events(); ++i) {
      const CallTraits& traits = traits_of(columns.call[i]);
      if (traits.kind == CallKind::kRead || traits.kind == CallKind::kWrite ||
          traits.kind == CallKind::kTransfer) {
        if (columns.thread[i] != last) threads.insert(static_cast<uint32_t>(columns.thread[i]));
        last = columns.thread[i];
      } else if (columns.call[i] == Call::kIoUringSetup || columns.call[i] == Call::kIoUringEnter) {
        seen |= kUring;
      } else {
        if (block.context.system_file[static_cast<size_t>(columns.file[i])]) continue;
        seen |= seen_in(columns.call[i], columns.detail[i]);
      }
    }
    const MutexLock lock(mutex_);
    io_threads_.insert(threads.begin(), threads.end());
    seen_ |= seen;
    events_ += columns.size_events();
  }

  void save(std::vector<std::byte>& out) const override {
    const MutexLock lock(mutex_);
    trace::BytesOut bytes;
    bytes.put(seen_);
    bytes.put(events_);
    bytes.put_varint(io_threads_.size());
    for (const uint32_t thread : io_threads_) bytes.put_varint(thread);
    out.insert(out.end(), bytes.view().begin(), bytes.view().end());
  }

  Status merge(ByteReader& saved) override {
    const MutexLock lock(mutex_);
    ASSIGN_OR_RETURN(const auto seen, saved.read<uint8_t>());
    ASSIGN_OR_RETURN(const auto events, saved.read<uint64_t>());
    ASSIGN_OR_RETURN(const uint64_t count, saved.read_varint());
    for (uint64_t i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(const uint64_t thread, saved.read_varint());
      io_threads_.insert(static_cast<uint32_t>(thread));
    }
    seen_ |= seen;
    events_ += events;
    return {};
  }

  void finish(const Context& context, Profile& profile) override {
    const MutexLock lock(mutex_);
    const trace::Trace& trace = context.trace;
    Job& job = profile.job;
    job.hosts = context.hosts;
    std::sort(job.hosts.begin(), job.hosts.end());
    job.ranks =
        static_cast<uint32_t>(std::count_if(context.groups.begin(), context.groups.end(),
                                            [](const Group& group) { return group.trains; }));
    // A process that called exec is two programs, but one process.
    std::set<std::pair<uint32_t, uint32_t>> processes;
    for (const trace::Process& process : trace.processes()) {
      processes.insert({process.session, process.pid});
    }
    job.processes = processes.size();
    job.threads = trace.threads().size();
    job.compute_threads = static_cast<uint64_t>(
        std::count(context.thread_computes.begin(), context.thread_computes.end(), true));
    job.io_threads = io_threads_.size();
    job.begin_ns = context.begin_ns;
    job.begin_wall_ns = trace.origin_wall_ns() + static_cast<int64_t>(context.begin_ns);
    job.wall_ns = context.end_ns - context.begin_ns;
    job.events = events_;
    for (const trace::LostEvents& loss : trace.losses()) job.lost_events += loss.events;
    job.framework = find_framework(trace);
    if (!context.groups.empty() && context.groups[0].main != trace::kNoProcess) {
      const auto main = static_cast<size_t>(context.groups[0].main);
      job.command = trace.name(trace.processes()[main].command_line);
    }
    job.direct_io = (seen_ & kDirect) != 0;
    job.mapped_io = (seen_ & kMapped) != 0;
    job.uring_io = (seen_ & kUring) != 0;
    for (const trace::Session& session : trace.sessions()) {
      if (session.cores == 0) continue;
      job.cores = job.cores == 0 ? session.cores : std::min<uint64_t>(job.cores, session.cores);
    }
    count_epochs(context, job);
    count_failed(context, job);
  }

 private:
  // The last program of a process that called exec: its exit code is that of the process.
  static const trace::Process* last_program(const trace::Trace& trace, trace::ProcessIndex main) {
    if (main == trace::kNoProcess) return nullptr;
    const trace::Process* last = &trace.processes()[static_cast<size_t>(main)];
    for (const trace::Process& other : trace.processes()) {
      if (other.session == last->session && other.pid == last->pid &&
          other.start_ns > last->start_ns) {
        last = &other;
      }
    }
    return last;
  }

  static bool is_shell(std::string_view program) {
    constexpr std::string_view kShells[] = {"sh", "bash", "dash", "zsh", "ksh", "fish"};
    const std::string_view name = program.substr(program.rfind('/') + 1);
    return std::find(std::begin(kShells), std::end(kShells), name) != std::end(kShells);
  }

  // Whether a program that looked after this process ended well: Ray ends its workers with exit
  // code 1 when the program is done, and torchrun may have started a failed rank again. A shell
  // ends with the code of its last command, whatever the others did.
  static bool is_excused(const Context& context, const trace::Process& failed) {
    const std::vector<trace::Process>& processes = context.trace.processes();
    const auto ended_well = [&](const trace::Process& other) {
      return &other != &failed && other.pid != failed.pid && other.exited && other.exit_code == 0 &&
             !is_shell(context.trace.name(other.executable));
    };
    auto at = static_cast<uint32_t>(&failed - processes.data());
    for (size_t steps = 0; steps < processes.size() && context.parent_of[at] != at; ++steps) {
      at = context.parent_of[at];
      if (ended_well(processes[at])) return true;
    }
    // A daemon is nobody's child: then the traced command counts, unless it is a rank itself.
    const trace::Process* first = &failed;
    for (const trace::Process& other : processes) {
      if (other.session == failed.session && other.start_ns < first->start_ns) first = &other;
    }
    first = last_program(context.trace, static_cast<trace::ProcessIndex>(first - processes.data()));
    return failed.rank >= 0 && first->rank < 0 && ended_well(*first);
  }

  static void count_failed(const Context& context, Job& job) {
    for (const Group& group : context.groups) {
      const trace::Process* main = last_program(context.trace, group.main);
      if (!group.trains || main == nullptr || !main->exited || main->exit_code == 0) continue;
      if (is_excused(context, *main)) continue;
      if (job.failed_ranks++ == 0) job.exit_code = main->exit_code;
    }
  }

  static void count_epochs(const Context& context, Job& job) {
    std::set<int64_t> epochs;
    for (uint32_t group = 0; group < context.groups.size(); ++group) {
      for (const EpochSpan& span : context.epochs.epochs(group)) epochs.insert(span.epoch);
      job.steps = std::max<uint64_t>(job.steps, context.epochs.steps(group).size());
    }
    job.epochs = epochs.size();
  }

  mutable Mutex mutex_;
  std::set<uint32_t> io_threads_ GUARDED_BY(mutex_);
  uint64_t events_ GUARDED_BY(mutex_) = 0;
  uint8_t seen_ GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<Metric> make_job_metric(const Context& /*context*/, const Limits& /*limits*/) {
  return std::make_unique<JobMetric>();
}

}  // namespace millrace::analyze
