#include "replay/plan.h"

#include <fcntl.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/io/file.h"
#include "base/numbers/radix_sort.h"
#include "base/text/spelling.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "interop/describe.h"

namespace millrace::replay {
namespace {

using interop::Event;
using wire::Call;

constexpr size_t kCallNumbers = 0x600;
constexpr uint32_t kNameUnseen = kNoPath - 1;
constexpr uint32_t kNameNotStorage = kNoPath - 2;
constexpr uint32_t kNameOutside = kNoPath - 3;

uint32_t narrow(uint64_t number) {
  return static_cast<uint32_t>(std::min<uint64_t>(number, std::numeric_limits<uint32_t>::max()));
}

uint64_t pages_of(uint64_t size_bytes) { return (size_bytes >> 12) + ((size_bytes & 4095) != 0); }

// Turns events into steps whose targets are still paths.
class Planner {
 public:
  Planner(const trace::Trace& trace, const PlanOptions& options, Plan& plan)
      : trace_(trace),
        options_(options),
        plan_(plan),
        by_name_(trace.names().size(), kNameUnseen) {}

  Status take(const Event& event) {
    const Action action = action_of(event.call);
    if (action == Action::kNone) return {};
    if (!is_wanted(event, action)) {
      ++plan_.skipped.filtered;
      return {};
    }
    const uint32_t path = path_of(event.file, event.thread);
    if (!count_if_skipped(event, action, path)) return {};
    if (plan_.steps.size() >= kStepsMax) {
      return fail(Errc::kUnsupported,
                  "the trace has more than {} calls to replay; select a part of it",
                  format_exact(kStepsMax));
    }
    return add(event, action, path);
  }

 private:
  static constexpr size_t kStepsMax = std::numeric_limits<uint32_t>::max() - 16;

  bool is_wanted(const Event& event, Action action) const {
    const auto number = static_cast<size_t>(event.call);
    if (!options_.functions.empty() &&
        (number >= options_.functions.size() || !options_.functions[number])) {
      return false;
    }
    if (!moves_bytes(action)) return true;
    const auto moved = static_cast<uint64_t>(std::max<int64_t>(event.result, 0));
    const uint64_t size = std::max(event.size, moved);
    return size >= options_.size_min && size <= options_.size_max;
  }

  // The number of the file's path, or one of the constants above.
  uint32_t path_of(trace::NameIndex name, trace::ThreadIndex thread) {
    const std::string_view text = trace_.name(name);
    if (text.empty()) return kNoPath;
    if (!text.starts_with('/')) return classify(text, directory_of_thread(thread));
    uint32_t& known = by_name_[static_cast<size_t>(name)];
    if (known == kNameUnseen) known = classify(text, "/");
    return known;
  }

  uint32_t classify(std::string_view text, std::string_view directory) {
    if (!is_storage(text)) return kNameNotStorage;
    const std::string path = clean_path(text, directory);
    if (!options_.root.empty() && !is_below(path, options_.root)) return kNameOutside;
    if (!options_.files.empty() && !options_.files.contains(path)) return kNameOutside;
    return plan_.names.intern(path);
  }

  std::string_view directory_of_thread(trace::ThreadIndex thread) const {
    const trace::Process* process = interop::process_of(trace_, thread);
    return process == nullptr ? std::string_view("/") : trace_.name(process->working_directory);
  }

  // False if the call is not replayed, which is then counted.
  bool count_if_skipped(const Event& event, Action action, uint32_t path) {
    Skipped& skipped = plan_.skipped;
    if (path == kNameNotStorage) {
      ++skipped.not_storage;
    } else if (path == kNameOutside) {
      ++skipped.outside;
    } else if (action == Action::kCovered) {
      ++skipped.covered;
    } else if (action == Action::kCannot) {
      ++skipped.cannot[interop::call_name(event.call)];
    } else if (path == kNoPath) {
      ++skipped.unknown_file;
    } else if (event.result < 0 && changes(event.call, event.detail)) {
      ++skipped.failed;
    } else if (action == Action::kAllocate && !is_plain_allocation(event.detail)) {
      ++skipped.cannot[interop::call_name(event.call)];
    } else {
      return true;
    }
    return false;
  }

  // Others move the rest of the file, and could make it longer than the trace shows.
  static bool is_plain_allocation(uint32_t mode) {
    return (mode & ~uint32_t{FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE}) ==
           0;
  }

  Status add(const Event& event, Action action, uint32_t path) {
    Step step{.begin_ns = event.begin_ns,
              .offset = event.offset,
              .duration_ns = static_cast<float>(event.duration_ns()),
              .target = path,
              .thread = static_cast<uint32_t>(event.thread),
              .call = event.call};
    if (event.result < 0) step.flags |= kFailedBefore;
    if (action == Action::kRename || action == Action::kLink || action == Action::kTransfer) {
      const uint32_t other = path_of(event.other_file, event.thread);
      if (!count_if_skipped(event, action, other)) return {};
      if (action == Action::kTransfer) {
        step.offset = plan_.transfers.size();
        plan_.transfers.push_back({path, other, event.offset, event.other_offset});
      } else {
        step.size = other;
        step.flags |= kHasOther;
      }
    }
    set_numbers(event, action, step);
    plan_.steps.push_back(step);
    return {};
  }

  static void set_numbers(const Event& event, Action action, Step& step) {
    uint64_t size = event.size;
    auto result = static_cast<uint64_t>(std::max<int64_t>(event.result, 0));
    if (event.call == Call::kAioRead || event.call == Call::kAioWrite) result = size;
    const bool is_stream = wire::level_of(event.call) == wire::Level::kStdio;
    if (is_stream && event.call != Call::kFread && event.call != Call::kFwrite) size = result;
    if (action == Action::kTruncate || action == Action::kTruncateName) step.offset = size;
    if (!moves_bytes(action)) result = event.detail;
    if (opens(action)) size = narrow(result_number(event));
    if (step.has(kHasOther)) return;
    if (moves_bytes(action) || action == Action::kAllocate || action == Action::kStat ||
        action == Action::kStatOpen || action == Action::kAdvise) {
      if (std::max(size, moves_bytes(action) ? result : 0) > std::numeric_limits<uint32_t>::max()) {
        step.flags |= kInPages;
        size = pages_of(size);
        if (moves_bytes(action)) result = pages_of(result);
      }
    }
    step.size = narrow(size);
    step.result = narrow(result);
  }

  // The descriptor that an open returned; 0 if it is unknown, as in traces of DFTracer.
  static uint64_t result_number(const Event& event) {
    const bool is_descriptor = wire::level_of(event.call) == wire::Level::kPosix;
    return is_descriptor && event.result > 0 ? static_cast<uint64_t>(event.result) : 0;
  }

  const trace::Trace& trace_;
  const PlanOptions& options_;
  Plan& plan_;
  std::vector<uint32_t> by_name_;
};

// The steps by thread, those of each thread still in the order of time.
void group_by_thread(Plan& plan) {
  std::erase_if(plan.steps, [](const Step& step) { return step.has(kDropped); });
  radix_sort(std::span(plan.steps), [](const Step& step) { return step.thread; });
  for (size_t at = 0; at < plan.steps.size();) {
    ThreadPlan thread{.first = at, .begin_ns = plan.steps[at].begin_ns};
    const uint32_t number = plan.steps[at].thread;
    for (; at < plan.steps.size() && plan.steps[at].thread == number; ++at) {
      const Step& step = plan.steps[at];
      const uint64_t end = step.begin_ns + static_cast<uint64_t>(step.duration_ns);
      thread.end_ns = std::max(thread.end_ns, end);
      const Action action = action_of(step.call);
      thread.writes = thread.writes || writes(action);
      if (!moves_bytes(action) || action == Action::kReadMapped) continue;
      const uint64_t limit = kind_of(action) == HandleKind::kStream ? ~uint64_t{0} : kMovedMax;
      thread.buffer_bytes = std::max(thread.buffer_bytes, std::min(step.size_bytes(), limit));
    }
    thread.count = at - thread.first;
    plan.threads.push_back(thread);
  }
  std::stable_sort(
      plan.threads.begin(), plan.threads.end(),
      [](const ThreadPlan& a, const ThreadPlan& b) { return a.begin_ns < b.begin_ns; });
  plan.begin_ns = plan.threads.empty() ? 0 : plan.threads.front().begin_ns;
  for (const ThreadPlan& thread : plan.threads) plan.end_ns = std::max(plan.end_ns, thread.end_ns);
}

// The common directory of all used names, unless the user chose a root.
std::string root_of(const Plan& plan, const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  std::string_view root;
  for (uint32_t path = 0; path < plan.paths.size(); ++path) {
    if (!plan.paths[path].is_used) continue;
    const std::string& text = plan.names.text(path);
    const std::string_view place = plan.paths[path].is_directory ? text : parent_of(text);
    root = root.empty() ? place : common_directory(root, place);
  }
  return std::string(root.empty() ? "/" : root);
}

// Marks what contains other files as a directory. If a file was there before the first call, so was
// its directory, whatever a later or lost call says: mkdir may then find it.
void mark_directories(Plan& plan) {
  for (uint32_t path = 0; path < plan.paths.size(); ++path) {
    if (!plan.paths[path].is_used || plan.paths[path].before == Existence::kUnknown) continue;
    std::string_view text = plan.names.text(path);
    while (text != "/") {
      text = parent_of(text);
      const uint32_t above = plan.names.find(text);
      if (above == kNoPath) continue;
      Path& directory = plan.paths[above];
      if (directory.is_directory && directory.before == Existence::kPresent) break;
      directory.is_directory = true;
      if (plan.paths[path].before != Existence::kPresent || !directory.is_created) continue;
      directory.before = Existence::kPresent;
      directory.is_created = directory.is_modified = false;
    }
  }
}

std::vector<std::string> known_functions() {
  std::vector<std::string> names;
  for (uint32_t number = 0x100; number < kCallNumbers; ++number) {
    const auto call = static_cast<Call>(number);
    if (is_replayed(action_of(call))) names.push_back(interop::call_name(call));
  }
  return names;
}

bool add_function(std::string_view word, std::vector<bool>& functions) {
  bool found = false;
  for (uint32_t number = 0x100; number < kCallNumbers; ++number) {
    const auto call = static_cast<Call>(number);
    if (!is_replayed(action_of(call))) continue;
    if (interop::call_name(call) != word && interop::level_name(call) != word) continue;
    functions[number] = true;
    found = true;
  }
  return found;
}

}  // namespace

uint64_t Skipped::total() const {
  return std::accumulate(
      cannot.begin(), cannot.end(),
      filtered + not_storage + outside + unknown_file + covered + unmatched + failed,
      [](uint64_t sum, const auto& entry) { return sum + entry.second; });
}

Result<Plan> make_plan(const trace::Trace& trace, const PlanOptions& options) {
  Plan plan;
  Planner planner(trace, options, plan);
  RETURN_IF_ERROR(interop::visit_events(trace, options.selection,
                                        [&](const Event& event) { return planner.take(event); }));
  radix_sort(std::span(plan.steps), [](const Step& step) { return step.begin_ns; });
  plan.paths.resize(plan.names.size());
  resolve_steps(trace, plan);
  mark_directories(plan);
  plan.root = root_of(plan, options.root);
  group_by_thread(plan);
  return plan;
}

Result<std::vector<bool>> parse_functions(std::string_view text) {
  std::vector<bool> functions(kCallNumbers);
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    if (!add_function(word, functions)) {
      return fail(Errc::kInvalidArgument, "'{}' is not a function that can be replayed{}",
                  printable(word), did_you_mean(word, known_functions()));
    }
    if (comma == text.size()) return functions;
    text.remove_prefix(comma + 1);
  }
}

Result<std::set<std::string, std::less<>>> read_file_list(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path));
  std::set<std::string, std::less<>> files;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    if (!line.starts_with('/')) {
      return fail(Errc::kInvalidArgument, "{}: '{}' is not absolute; names in a trace begin with /",
                  printable(path), printable(line));
    }
    files.insert(clean_path(line, "/"));
  }
  if (files.empty()) return fail(Errc::kInvalidArgument, "{}: lists no file", printable(path));
  return files;
}

Result<SizeRange> parse_size_range(std::string_view text) {
  SizeRange range;
  const size_t dots = text.find("..");
  const std::string_view low = text.substr(0, dots);
  const std::string_view high = dots == std::string_view::npos ? low : text.substr(dots + 2);
  if (low.empty() && high.empty()) {
    return fail(Errc::kInvalidArgument, "'{}' has no size; expected for example 4KiB..1MiB",
                printable(text));
  }
  if (!low.empty()) {
    ASSIGN_OR_RETURN(range.min, parse_bytes(low));
  }
  if (!high.empty()) {
    ASSIGN_OR_RETURN(range.max, parse_bytes(high));
  }
  if (range.min <= range.max) return range;
  return fail(Errc::kInvalidArgument, "'{}' is empty: the first size is larger than the second",
              printable(text));
}

}  // namespace millrace::replay
