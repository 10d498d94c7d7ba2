#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "analyze/detail/detail_parts.h"
#include "base/text/text.h"

namespace millrace::analyze {
namespace {

using trace::BlockInfo;
using trace::ProcessIndex;

constexpr size_t kSlowStepsShown = 3;
constexpr size_t kEpochsShown = 3;

// A window before its events are read. Times are on the clock of the trace.
struct WindowRequest {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  std::string why;
  std::vector<ProcessIndex> processes;  // the processes whose events are shown
};

auto outer_first(const WindowEvent& event) {
  return std::tuple(event.begin_ns, ~event.duration_ns, event.thread, event.call, event.file);
}

// Reads the blocks of the requested windows and cuts the windows to the maximum number of events.
class WindowReader {
 public:
  WindowReader(const Context& context, size_t events_max)
      : context_(context), events_max_(events_max), blocks_of_(context.trace.processes().size()) {
    const std::vector<BlockInfo>& blocks = context.trace.blocks();
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (!wants(context.options, blocks[i])) continue;
      blocks_of_[static_cast<size_t>(blocks[i].process)].push_back(i);
    }
  }

  // The window ends early if it would have too many events. It never has a gap: up to its end, it
  // contains all events of its processes.
  Window read(const WindowRequest& request) {
    Window window{.begin_ns = request.begin_ns,
                  .end_ns = request.end_ns,
                  .why = request.why,
                  .processes = request.processes,
                  .events = {}};
    for (const size_t block : blocks_in(request)) {
      // Sorted by begin. What begins after the window cannot get into it, however much it is cut.
      if (context_.trace.blocks()[block].begin_ns >= window.end_ns) break;
      const auto wanted = read_wanted(context_.trace, context_.options, block, columns_);
      if (wanted.ok() && *wanted) take_block(window);
    }
    cut(window);
    take_long_regions(window);
    std::sort(window.events.begin(), window.events.end(),
              [](const WindowEvent& a, const WindowEvent& b) {
                return std::tuple_cat(std::tuple(a.thread), outer_first(a)) <
                       std::tuple_cat(std::tuple(b.thread), outer_first(b));
              });
    return window;
  }

 private:
  std::vector<size_t> blocks_in(const WindowRequest& request) const {
    const std::vector<BlockInfo>& blocks = context_.trace.blocks();
    std::vector<size_t> found;
    for (const ProcessIndex process : request.processes) {
      for (const size_t i : blocks_of_[static_cast<size_t>(process)]) {
        if (blocks[i].begin_ns < request.end_ns && blocks[i].end_ns >= request.begin_ns) {
          found.push_back(i);
        }
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [&](size_t a, size_t b) { return blocks[a].begin_ns < blocks[b].begin_ns; });
    return found;
  }

  void take_block(Window& window) {
    for (size_t i = 0; i < columns_.size_events(); ++i) {
      const uint64_t begin_ns = columns_.begin_ns[i];
      if (begin_ns >= window.end_ns) continue;
      if (begin_ns < window.begin_ns && columns_.duration_ns[i] < window.begin_ns - begin_ns) {
        continue;
      }
      if (wire::call_info(columns_.call[i]) == nullptr) continue;
      window.events.push_back({.begin_ns = begin_ns,
                               .duration_ns = columns_.duration_ns[i],
                               .offset = columns_.offset[i],
                               .size = columns_.size[i],
                               .result = columns_.result[i],
                               .file = columns_.file[i],
                               .thread = columns_.thread[i],
                               .call = columns_.call[i],
                               .error = columns_.error[i]});
      if (window.events.size() >= 2 * events_max_) cut(window);
    }
  }

  // The window ends where the first excess event begins.
  void cut(Window& window) const {
    if (window.events.size() <= events_max_) return;
    const auto is_first = [](const WindowEvent& a, const WindowEvent& b) {
      return outer_first(a) < outer_first(b);
    };
    const auto excess = window.events.begin() + static_cast<ptrdiff_t>(events_max_);
    std::nth_element(window.events.begin(), excess, window.events.end(), is_first);
    window.end_ns = std::max(excess->begin_ns, window.begin_ns + 1);
    window.events.erase(excess, window.events.end());
    std::erase_if(window.events,
                  [&](const WindowEvent& event) { return event.begin_ns >= window.end_ns; });
  }

  // Regions around the window are stored in blocks that end long after it. They are known already.
  // If their block was read, they are in the window already.
  void take_long_regions(Window& window) const {
    std::vector<trace::ThreadIndex> threads;
    for (const WindowEvent& event : window.events) threads.push_back(event.thread);
    std::sort(threads.begin(), threads.end());
    threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
    const size_t own_count = window.events.size();
    for (const LongRegion& region : context_.long_regions) {
      if (region.begin_ns >= window.end_ns || region.end_ns < window.begin_ns) continue;
      if (!std::binary_search(threads.begin(), threads.end(), region.thread)) continue;
      const auto is_same = [&](const WindowEvent& event) {
        return event.thread == region.thread && event.begin_ns == region.begin_ns &&
               event.file == region.name && event.call == wire::Call::kRegion &&
               event.begin_ns + event.duration_ns == region.end_ns;
      };
      const auto own_end = window.events.begin() + static_cast<ptrdiff_t>(own_count);
      if (std::any_of(window.events.begin(), own_end, is_same)) continue;
      window.events.push_back({.begin_ns = region.begin_ns,
                               .duration_ns = region.end_ns - region.begin_ns,
                               .offset = wire::kNoStep,
                               .size = wire::kNoEpoch,
                               .result = 0,
                               .file = region.name,
                               .thread = region.thread,
                               .call = wire::Call::kRegion,
                               .error = 0});
    }
  }

  const Context& context_;
  const size_t events_max_;
  std::vector<std::vector<size_t>> blocks_of_;  // by process
  trace::EventColumns columns_;
};

// The processes with wanted blocks, in ascending order.
std::vector<ProcessIndex> wanted_processes(const Context& context) {
  std::vector<bool> is_wanted(context.trace.processes().size(), !context.options.wants_block);
  for (const BlockInfo& block : context.trace.blocks()) {
    if (wants(context.options, block)) is_wanted[static_cast<size_t>(block.process)] = true;
  }
  std::vector<ProcessIndex> processes;
  for (uint32_t i = 0; i < is_wanted.size(); ++i) {
    if (is_wanted[i]) processes.push_back(ProcessIndex{i});
  }
  return processes;
}

// Selects what is worth a window.
class WindowRequests {
 public:
  WindowRequests(const Context& context, const Profile& profile, size_t processes_max)
      : context_(context),
        profile_(profile),
        processes_max_(processes_max),
        processes_of_(context.groups.size()) {
    for (const ProcessIndex process : wanted_processes(context)) {
      processes_of_[static_cast<size_t>(context.group(process))].push_back(process);
    }
    for (size_t i = 0; i < context.groups.size(); ++i) {
      const auto main =
          std::find(processes_of_[i].begin(), processes_of_[i].end(), context.groups[i].main);
      if (main != processes_of_[i].end()) std::rotate(processes_of_[i].begin(), main, main + 1);
    }
  }

  std::vector<WindowRequest> make() {
    request("begin of the job", {0, job_ns()}, first_groups());
    request_slow_steps();
    request_epochs();
    request_checkpoint();
    request_busiest();
    return std::move(requests_);
  }

 private:
  uint64_t job_ns() const { return context_.end_ns - context_.begin_ns + 1; }

  void request_slow_steps() {
    const size_t count = std::min(profile_.steps.slowest.size(), kSlowStepsShown);
    for (size_t i = 0; i < count; ++i) {
      const StepStats& step = profile_.steps.slowest[i];
      if (step.rank >= context_.groups.size()) continue;
      const std::string rank = context_.groups[step.rank].name;
      const std::string epoch =
          step.epoch < 0 ? std::string() : fmt::format(" of epoch {}", step.epoch);
      request(fmt::format("slow step {}{}, {}", step.step, epoch, rank),
              {step.begin_ns, step.begin_ns + step.duration_ns}, {step.rank});
    }
  }

  // The first epoch, the second, when caches may be warm, and the last.
  void request_epochs() {
    const std::vector<EpochStats>& epochs = profile_.epochs;
    std::vector<size_t> chosen;
    for (size_t i = 0; i < epochs.size(); ++i) {
      if (i + 1 < kEpochsShown || i + 1 == epochs.size()) chosen.push_back(i);
    }
    for (const size_t i : chosen) {
      request(fmt::format("begin of epoch {}", epochs[i].epoch),
              {epochs[i].begin_ns, epochs[i].end_ns}, first_groups());
    }
  }

  void request_checkpoint() {
    const auto longest = std::max_element(profile_.checkpoints.begin(), profile_.checkpoints.end(),
                                          [](const Checkpoint& a, const Checkpoint& b) {
                                            return a.end_ns - a.begin_ns < b.end_ns - b.begin_ns;
                                          });
    if (longest == profile_.checkpoints.end()) return;
    request("longest checkpoint", {longest->begin_ns, longest->end_ns}, first_groups());
  }

  // When most calls were in flight, for the ranks that were busiest then.
  void request_busiest() {
    const std::vector<uint64_t>& busy = profile_.timeline.busy_ns;
    const auto most = std::max_element(busy.begin(), busy.end());
    if (most == busy.end() || *most == 0) return;
    const uint64_t bin_ns = profile_.timeline.bin_ns;
    const Interval time{bin_ns * static_cast<uint64_t>(most - busy.begin()),
                        bin_ns * static_cast<uint64_t>(most - busy.begin() + 1)};
    const uint64_t heat_ns = std::max<uint64_t>(profile_.heat.bin_ns, 1);
    const auto heat = [&](size_t group) -> uint32_t {
      for (const RankActivity& rank : profile_.heat.ranks) {
        if (rank.name != context_.groups[group].name) continue;
        const size_t bin = time.begin_ns / heat_ns;
        return bin < rank.io.size() ? rank.io[bin] : 0;
      }
      return 0;
    };
    std::vector<size_t> groups = first_groups();
    std::vector<std::pair<uint32_t, size_t>> by_heat;
    for (size_t i = 0; i < context_.groups.size(); ++i) by_heat.emplace_back(heat(i), i);
    std::stable_sort(by_heat.begin(), by_heat.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = by_heat[i].second;
    request("most calls in flight", time, groups);
  }

  std::vector<size_t> first_groups() const {
    std::vector<size_t> groups;
    for (size_t i = 0; i < context_.groups.size() && groups.size() < processes_max_; ++i) {
      if (!processes_of_[i].empty()) groups.push_back(i);
    }
    return groups;
  }

  // First the main processes of the groups, then their workers that were alive at that time.
  void request(std::string why, Interval time, const std::vector<size_t>& groups) {
    const uint64_t begin_ns = context_.begin_ns + std::min(time.begin_ns, job_ns());
    const uint64_t end_ns = context_.begin_ns + std::min(time.end_ns, job_ns());
    if (begin_ns >= end_ns) return;
    WindowRequest made{
        .begin_ns = begin_ns, .end_ns = end_ns, .why = std::move(why), .processes = {}};
    size_t longest = 0;
    for (const size_t group : groups) longest = std::max(longest, processes_of_[group].size());
    for (size_t place = 0; place < longest; ++place) {
      for (const size_t group : groups) {
        if (place >= processes_of_[group].size()) continue;
        if (made.processes.size() == processes_max_) break;
        const ProcessIndex process = processes_of_[group][place];
        const trace::Process& lived = context_.trace.processes()[static_cast<size_t>(process)];
        if (lived.end_ns != 0 && lived.end_ns < begin_ns) continue;
        if (lived.start_ns >= end_ns) continue;
        made.processes.push_back(process);
      }
    }
    requests_.push_back(std::move(made));
  }

  const Context& context_;
  const Profile& profile_;
  const size_t processes_max_;
  std::vector<std::vector<ProcessIndex>> processes_of_;  // by group, main process first
  std::vector<WindowRequest> requests_;
};

}  // namespace

std::vector<Window> make_windows(const Context& context, const Profile& profile,
                                 const DetailLimits& limits) {
  std::vector<WindowRequest> requests;
  // The profile counts only wanted events. A profile without events does not belong to this trace.
  const bool has_part = context.options.wants_block && profile.job.events > 0;
  const uint64_t events = has_part ? profile.job.events : context.trace.event_count();
  if (events <= limits.events) {
    requests.push_back({.begin_ns = context.begin_ns,
                        .end_ns = context.end_ns + 1,
                        .why = "whole job",
                        .processes = wanted_processes(context)});
  } else {
    requests = WindowRequests(context, profile, limits.processes).make();
  }
  if (requests.empty()) return {};
  WindowReader reader(context, std::max<size_t>(limits.events / requests.size(), 1));
  std::vector<Window> windows;
  for (const WindowRequest& request : requests) {
    Window window = reader.read(request);
    if (!window.events.empty()) windows.push_back(std::move(window));
  }
  std::stable_sort(windows.begin(), windows.end(),
                   [](const Window& a, const Window& b) { return a.begin_ns < b.begin_ns; });
  return windows;
}

}  // namespace millrace::analyze
