#include "analyze/context.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analyze/epochs/regions_pass.h"
#include "analyze/files/file_kinds.h"
#include "base/system/cpus.h"
#include "base/text/text.h"

namespace millrace::analyze {
namespace {

using trace::Process;
using trace::ProcessIndex;

void find_hosts(Context& context, std::vector<uint32_t>& host_of_session) {
  for (const trace::Session& session : context.trace.sessions()) {
    const auto found = std::find(context.hosts.begin(), context.hosts.end(), session.host);
    host_of_session.push_back(static_cast<uint32_t>(found - context.hosts.begin()));
    if (found == context.hosts.end()) context.hosts.push_back(session.host);
  }
}

// Finds the process that started another one: in the same session, and started earlier. Pids are
// reused, so the latest such process counts.
class Parents {
 public:
  explicit Parents(const trace::Trace& trace) : trace_(trace) {
    for (uint32_t i = 0; i < trace.processes().size(); ++i) {
      const Process& process = trace.processes()[i];
      by_pid_[{process.session, process.pid}].push_back(i);
      if (!is_addition(process)) by_pid_of_any_[process.pid].push_back(i);
    }
  }

  // Returns `index` itself if there is no parent.
  uint32_t parent(uint32_t index) const {
    const Process& child = trace_.processes()[index];
    uint32_t best = index;
    if (is_addition(child)) {
      const auto found = by_pid_of_any_.find(child.pid);
      if (found == by_pid_of_any_.end()) return best;
      for (const uint32_t candidate : found->second) {
        if (is_older(candidate, index) && (best == index || is_older(best, candidate))) {
          best = candidate;
        }
      }
      return best;
    }
    // First the same pid: a process that called exec ran another program before.
    for (const uint32_t pid : {child.pid, child.parent_pid}) {
      const auto found = by_pid_.find({child.session, pid});
      if (found == by_pid_.end()) continue;
      for (const uint32_t candidate : found->second) {
        if (candidate == index || !is_older(candidate, index)) continue;
        if (best == index || is_older(best, candidate)) best = candidate;
      }
      if (best != index) return best;
    }
    return best;
  }

 private:
  bool is_older(uint32_t a, uint32_t b) const {
    const uint64_t start_a = trace_.processes()[a].start_ns;
    const uint64_t start_b = trace_.processes()[b].start_ns;
    return start_a != start_b ? start_a < start_b : a < b;
  }

  const trace::Trace& trace_;
  // A process that is its own parent adds to the process with this pid of another session: what
  // torch.profiler recorded of it.
  static bool is_addition(const Process& process) {
    return process.pid != 0 && process.pid == process.parent_pid;
  }

  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> by_pid_;
  std::map<uint32_t, std::vector<uint32_t>> by_pid_of_any_;  // without additions
};

// The key of a group: a rank, or the oldest ancestor of its processes.
struct GroupKey {
  int32_t rank = -1;
  uint32_t root = 0;

  auto operator<=>(const GroupKey&) const = default;
};

std::vector<uint32_t> find_parents(const trace::Trace& trace) {
  const Parents parents(trace);
  std::vector<uint32_t> parent_of;
  for (uint32_t i = 0; i < trace.processes().size(); ++i) parent_of.push_back(parents.parent(i));
  return parent_of;
}

std::vector<GroupKey> group_keys(const trace::Trace& trace,
                                 const std::vector<uint32_t>& parent_of) {
  const size_t count = trace.processes().size();
  std::vector<GroupKey> keys(count);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t at = i;
    // Bounded by the number of processes: the process table of a foreign trace may have a cycle.
    for (size_t steps = 0; steps < count; ++steps) {
      if (trace.processes()[at].rank >= 0) break;
      const uint32_t parent = parent_of[at];
      if (parent == at) break;
      at = parent;
    }
    keys[i] = {.rank = trace.processes()[at].rank, .root = at};
    if (keys[i].rank >= 0) keys[i].root = 0;
  }
  return keys;
}

std::string name_of(const trace::Trace& trace, const GroupKey& key, bool alone) {
  if (key.rank >= 0) return fmt::format("rank {}", key.rank);
  if (alone) return "job";
  const Process& root = trace.processes()[key.root];
  return fmt::format("process {} ({})", root.pid,
                     shorten(printable(trace.name(root.command_line)), 40));
}

void make_groups(Context& context, const std::vector<uint32_t>& host_of_session) {
  const trace::Trace& trace = context.trace;
  context.parent_of = find_parents(trace);
  std::vector<GroupKey> keys = group_keys(trace, context.parent_of);
  const bool has_ranks =
      std::any_of(keys.begin(), keys.end(), [](const GroupKey& key) { return key.rank >= 0; });
  if (has_ranks) {
    for (GroupKey& key : keys) {
      if (key.rank < 0) key.root = 0;
    }
  }
  std::map<GroupKey, uint32_t> places;
  for (const GroupKey& key : keys) places.try_emplace(key, 0);
  // Ranks in ascending order, then the processes outside them.
  uint32_t next = 0;
  for (auto& [key, place] : places) {
    if (key.rank >= 0) place = next++;
  }
  for (auto& [key, place] : places) {
    if (key.rank < 0) place = next++;
  }
  context.groups.resize(places.size());
  for (const auto& [key, place] : places) {
    Group& group = context.groups[place];
    group.rank = key.rank;
    group.trains = !has_ranks || key.rank >= 0;
    group.name = group.trains ? name_of(trace, key, places.size() == 1) : "outside the ranks";
    group.begin_ns = ~uint64_t{0};
    group.main = trace::kNoProcess;
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint32_t place = places[keys[i]];
    context.group_of.push_back(GroupIndex{place});
    Group& group = context.groups[place];
    const Process& process = trace.processes()[i];
    if (group.main == trace::kNoProcess ||
        process.start_ns < trace.processes()[static_cast<size_t>(group.main)].start_ns) {
      group.main = static_cast<ProcessIndex>(i);
      group.host = process.session < host_of_session.size() ? host_of_session[process.session] : 0;
    }
  }
}

void find_times(Context& context, const Options& options) {
  context.begin_ns = ~uint64_t{0};
  for (trace::BlockInfo block : context.trace.blocks()) {
    if (options.wants_block && !options.wants_block(block)) continue;
    if (options.window) {
      block.begin_ns = std::max(block.begin_ns, options.window->begin_ns);
      block.end_ns = std::min(block.end_ns, options.window->end_ns);
    }
    Group& group = context.groups[static_cast<size_t>(context.group(block.process))];
    group.begin_ns = std::min(group.begin_ns, block.begin_ns);
    group.end_ns = std::max(group.end_ns, block.end_ns);
    context.begin_ns = std::min(context.begin_ns, block.begin_ns);
    context.end_ns = std::max(context.end_ns, block.end_ns);
  }
  if (context.begin_ns > context.end_ns) context.begin_ns = context.end_ns;
  for (Group& group : context.groups) {
    if (group.begin_ns > group.end_ns) group.begin_ns = group.end_ns = context.begin_ns;
  }
}

// In each group, the process with the most compute regions becomes the main process.
void find_main_processes(Context& context, const RegionsPass& pass) {
  std::vector<uint64_t> most(context.groups.size(), 0);
  for (size_t i = 0; i < context.group_of.size(); ++i) {
    const auto group = static_cast<size_t>(context.group_of[i]);
    if (pass.compute_regions[i] <= most[group]) continue;
    most[group] = pass.compute_regions[i];
    context.groups[group].main = static_cast<ProcessIndex>(i);
  }
}

void find_device_times(Context& context, const RegionsPass& pass) {
  for (size_t i = 0; i < context.group_of.size(); ++i) {
    const Interval& span = pass.device_spans[i];
    if (span.begin_ns >= span.end_ns) continue;
    context.groups[static_cast<size_t>(context.group_of[i])].device.push_back(span);
  }
  for (Group& group : context.groups) {
    std::sort(group.device.begin(), group.device.end(),
              [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
    std::vector<Interval> joined;
    for (const Interval& span : group.device) {
      if (joined.empty() || span.begin_ns > joined.back().end_ns) joined.push_back(span);
      joined.back().end_ns = std::max(joined.back().end_ns, span.end_ns);
    }
    group.device = std::move(joined);
  }
}

// The part of a span that lies in the wanted window, which is the job. Its events overlap the
// window, so a part remains.
template <typename Span>
Span in_window(const Context& context, Span span) {
  if (!context.options.window) return span;
  span.begin_ns = std::max(span.begin_ns, context.options.window->begin_ns);
  span.end_ns = std::max(span.begin_ns, std::min(span.end_ns, context.options.window->end_ns));
  return span;
}

// Uses the spans of the main process if it has any, because workers run ahead of it. Threads that
// only load data run ahead too, so their spans are marked kReading.
void make_epochs(Context& context, const RegionsPass& pass) {
  std::vector<bool> main_has_any(context.groups.size(), false);
  for (const auto& [process, spans] : pass.spans) {
    const auto group = static_cast<size_t>(context.group(process));
    if (context.groups[group].main == process && !spans.empty()) main_has_any[group] = true;
  }
  for (const auto& [process, spans] : pass.spans) {
    const auto group = static_cast<uint32_t>(context.group(process));
    if (main_has_any[group] && context.groups[group].main != process) continue;
    for (const MarkedSpan& marked : spans) {
      const bool trains = pass.thread_trains[static_cast<size_t>(marked.thread)];
      context.epochs.add(group, in_window(context, marked.span),
                         trains ? MarkedBy::kTraining : MarkedBy::kReading);
    }
  }
  context.epochs.finish();
}

void find_training(Context& context, const RegionsPass& pass) {
  const std::vector<trace::Thread>& threads = context.trace.threads();
  for (const std::vector<bool>* has_role : {&pass.thread_computes, &pass.thread_trains}) {
    for (uint32_t i = 0; i < threads.size(); ++i) {
      if (!(*has_role)[i]) continue;
      Group& group = context.groups[static_cast<size_t>(context.group(threads[i].process))];
      if (group.main == threads[i].process && !group.thread) group.thread = trace::ThreadIndex{i};
    }
  }
  for (uint32_t i = 0; i < context.groups.size(); ++i) {
    Group& group = context.groups[i];
    const auto steps = context.epochs.steps(i);
    if (!steps.empty()) {
      group.training = {steps.front().begin_ns, steps.back().end_ns};
    } else if (group.main != trace::kNoProcess) {
      group.training = in_window(context, pass.training_spans[static_cast<size_t>(group.main)]);
    }
  }
}

void make_checkpoints(Context& context, const RegionsPass& pass) {
  for (const auto& [process, spans] : pass.checkpoints) {
    for (const StepSpan& span : spans) {
      context.checkpoints.push_back({context.group(process), in_window(context, span)});
    }
  }
  const auto key = [](const CheckpointRegion& region) {
    return std::tuple(region.span.begin_ns, region.group, region.span.end_ns, region.span.epoch,
                      region.span.step);
  };
  std::sort(context.checkpoints.begin(), context.checkpoints.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
}

}  // namespace

Context::Context(const trace::Trace& of, std::vector<RoleRule> rules)
    : trace(of), role_rules_(std::move(rules)), role_of_(of.names().size()) {
  for (auto& role : role_of_) role.store(kUnknownRole, std::memory_order_relaxed);
}

Role Context::find_role(trace::NameIndex name) const {
  const Role role = role_of_name(trace.name(name), role_rules_);
  role_of_[static_cast<size_t>(name)].store(static_cast<uint8_t>(role), std::memory_order_relaxed);
  return role;
}

Result<bool> read_wanted(const trace::Trace& trace, const Options& options, size_t index,
                         trace::EventColumns& columns) {
  if (!wants(options, trace.blocks()[index])) return false;
  RETURN_IF_ERROR(trace.read_block(index, columns));
  if (options.keep_wanted) options.keep_wanted(columns);
  return columns.size_events() > 0;
}

bool is_waiting(const Context& context, Role role, trace::ThreadIndex thread) {
  if (role == Role::kWait) return true;
  return role == Role::kFetch && !context.has_wait_regions &&
         context.thread_computes[static_cast<size_t>(thread)];
}

Context make_context(const trace::Trace& trace, const Options& options,
                     std::vector<std::string>& problems) {
  Context context(trace, options.roles);
  context.options = options;
  std::vector<uint32_t> host_of_session;
  find_hosts(context, host_of_session);
  make_groups(context, host_of_session);
  find_times(context, options);
  context.bytes_below_posix =
      std::none_of(trace.sessions().begin(), trace.sessions().end(), [](const auto& session) {
        constexpr uint32_t kPosixBit = 1U << static_cast<unsigned>(wire::Level::kPosix);
        return session.levels != 0 && (session.levels & kPosixBit) == 0;
      });
  context.system_file.reserve(trace.names().size());
  for (const std::string& name : trace.names()) context.system_file.push_back(is_system_path(name));
  RegionsPass pass = read_regions(trace, options);
  problems.insert(problems.end(), pass.problems.begin(), pass.problems.end());
  context.thread_computes = pass.thread_computes;
  context.has_wait_regions =
      std::any_of(pass.roles.begin(), pass.roles.end(),
                  [](const auto& entry) { return entry.second == Role::kWait; });
  find_main_processes(context, pass);
  find_device_times(context, pass);
  make_epochs(context, pass);
  find_training(context, pass);
  context.long_regions = std::move(pass.long_regions);
  make_checkpoints(context, pass);
  return context;
}

}  // namespace millrace::analyze
