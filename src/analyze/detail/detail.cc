#include "analyze/detail/detail.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/detail/detail_parts.h"
#include "base/text/json_writer.h"

namespace millrace::analyze {
namespace {

using trace::NameIndex;
using trace::ThreadIndex;

// The largest integer that a double represents exactly.
constexpr int64_t kExactMax = (int64_t{1} << 53) - 1;

int64_t exact(uint64_t number) {
  return static_cast<int64_t>(std::min<uint64_t>(number, static_cast<uint64_t>(kExactMax)));
}
int64_t exact(int64_t number) { return std::clamp(number, -kExactMax, kExactMax); }

// Not `quoted`: with g++ 13, a call with a std::string would also find std::quoted.
std::string json_string(std::string_view text) {
  JsonWriter writer;
  writer.value(text);
  std::string made = std::move(writer).finish();
  made.pop_back();  // the newline
  return made;
}

// JsonWriter would put every number on its own line. With a million numbers, that would be most of
// the text.
template <typename List, typename Number>
void put_list(std::string_view key, const List& list, const Number& number, std::string& out) {
  fmt::format_to(std::back_inserter(out), "\"{}\":[", key);
  bool is_first = true;
  for (const auto& entry : list) {
    if (!std::exchange(is_first, false)) out += ',';
    fmt::format_to(std::back_inserter(out), "{}", number(entry));
  }
  out += ']';
}

// The names of calls, regions and files, each once, in the order of first use.
class NameList {
 public:
  explicit NameList(const trace::Trace& trace) : trace_(trace) {}

  size_t of(wire::Call call) { return of(wire::call_info(call)->name); }
  size_t of(NameIndex name) { return of(trace_.name(name)); }

  const std::vector<std::string_view>& names() const { return names_; }

 private:
  size_t of(std::string_view text) {
    const auto [found, is_new] = places_.try_emplace(text, names_.size());
    if (is_new) names_.push_back(text);
    return found->second;
  }

  const trace::Trace& trace_;
  std::unordered_map<std::string_view, size_t> places_;
  std::vector<std::string_view> names_;
};

// The threads that are shown, sorted by rank, main process first, then by process start.
class ThreadList {
 public:
  ThreadList(const Context& context, const std::vector<Window>& windows,
             const std::vector<DetailLevel>& levels)
      : context_(context), workers_(worker_numbers(context)) {
    for (const Window& window : windows) {
      for (const WindowEvent& event : window.events) places_.try_emplace(event.thread, 0);
    }
    for (const DetailLevel& level : levels) {
      for (const LevelRow& row : level.rows) places_.try_emplace(row.thread, 0);
    }
    for (const auto& [thread, place] : places_) threads_.push_back(thread);
    std::sort(threads_.begin(), threads_.end(),
              [this](ThreadIndex a, ThreadIndex b) { return order(a) < order(b); });
    for (size_t i = 0; i < threads_.size(); ++i) places_[threads_[i]] = i;
  }

  size_t of(ThreadIndex thread) const { return places_.at(thread); }

  std::vector<size_t> of(const std::vector<trace::ProcessIndex>& processes) const {
    std::vector<trace::ProcessIndex> sorted = processes;
    std::sort(sorted.begin(), sorted.end());
    std::vector<size_t> found;
    for (size_t i = 0; i < threads_.size(); ++i) {
      const trace::ProcessIndex process = thread_of(threads_[i]).process;
      if (std::binary_search(sorted.begin(), sorted.end(), process)) found.push_back(i);
    }
    return found;
  }

  void put(std::string& out) const {
    out += "\"threads\":[";
    for (size_t i = 0; i < threads_.size(); ++i) {
      if (i > 0) out += ',';
      const trace::Thread& thread = thread_of(threads_[i]);
      fmt::format_to(std::back_inserter(out),
                     "{{\"rank\":{},\"process\":{},\"tid\":{},\"title\":{}}}",
                     json_string(group_of(thread).name), process_of(thread).pid, thread.tid,
                     json_string(title(thread)));
    }
    out += ']';
  }

 private:
  const trace::Thread& thread_of(ThreadIndex thread) const {
    return context_.trace.threads()[static_cast<size_t>(thread)];
  }
  const trace::Process& process_of(const trace::Thread& thread) const {
    return context_.trace.processes()[static_cast<size_t>(thread.process)];
  }
  const Group& group_of(const trace::Thread& thread) const {
    return context_.groups[static_cast<size_t>(context_.group(thread.process))];
  }

  std::tuple<GroupIndex, bool, uint64_t, trace::ProcessIndex, bool, uint32_t, ThreadIndex> order(
      ThreadIndex index) const {
    const trace::Thread& thread = thread_of(index);
    const trace::Process& process = process_of(thread);
    return {context_.group(thread.process),
            group_of(thread).main != thread.process,
            process.start_ns,
            thread.process,
            thread.tid != process.pid,
            thread.tid,
            index};
  }

  // By process: 0 for the main process of its group. The others are numbered from 1 in the order in
  // which they started.
  static std::vector<uint32_t> worker_numbers(const Context& context) {
    const std::vector<trace::Process>& processes = context.trace.processes();
    std::vector<uint32_t> by_start;
    for (uint32_t i = 0; i < processes.size(); ++i) by_start.push_back(i);
    std::stable_sort(by_start.begin(), by_start.end(), [&](uint32_t a, uint32_t b) {
      return processes[a].start_ns < processes[b].start_ns;
    });
    std::vector<uint32_t> met(context.groups.size(), 0);
    std::vector<uint32_t> numbers(processes.size(), 0);
    for (const uint32_t i : by_start) {
      const trace::ProcessIndex process{i};
      const auto group = static_cast<size_t>(context.group(process));
      if (context.groups[group].main != process) numbers[i] = ++met[group];
    }
    return numbers;
  }

  std::string title(const trace::Thread& thread) const {
    const trace::Process& process = process_of(thread);
    const uint32_t worker = workers_[static_cast<size_t>(thread.process)];
    const std::string who = worker == 0 ? "main" : fmt::format("worker {}", worker);
    return thread.tid == process.pid ? who : fmt::format("{}, thread {}", who, thread.tid);
  }

  const Context& context_;
  const std::vector<uint32_t> workers_;
  std::map<ThreadIndex, size_t> places_;
  std::vector<ThreadIndex> threads_;
};

int layer_of_event(const Context& context, const WindowEvent& event) {
  const CallTraits& traits = traits_of(event.call);
  return static_cast<int>(traits.region ? layer_of(context.role(event.file)) : traits.layer);
}

// -1: none. A region has its step and epoch in these fields, not bytes.
int64_t offset_of(const WindowEvent& event) {
  const bool is_none =
      traits_of(event.call).region || event.offset > static_cast<uint64_t>(kExactMax);
  return is_none ? -1 : static_cast<int64_t>(event.offset);
}
int64_t size_of(const WindowEvent& event) {
  return traits_of(event.call).region ? -1 : exact(event.size);
}

void put_window(const Context& context, const Window& window, const ThreadList& threads,
                NameList& names, std::string& out) {
  const uint64_t begin_ns = window.begin_ns;
  const auto is_region = [](const WindowEvent& event) { return traits_of(event.call).region; };
  const auto put = [&](std::string_view key, const auto& number) {
    out += ',';
    put_list(key, window.events, number, out);
  };
  fmt::format_to(std::back_inserter(out), "{{\"begin_ns\":{},\"end_ns\":{},\"why\":{}",
                 exact(begin_ns - context.begin_ns),
                 exact(std::min(window.end_ns, context.end_ns) - context.begin_ns),
                 json_string(window.why));
  out += ',';
  put_list("threads", threads.of(window.processes), [](size_t place) { return place; }, out);
  put("thread", [&](const WindowEvent& event) { return threads.of(event.thread); });
  put("name", [&](const WindowEvent& event) {
    return is_region(event) ? names.of(event.file) : names.of(event.call);
  });
  put("layer", [&](const WindowEvent& event) { return layer_of_event(context, event); });
  put("begin", [&](const WindowEvent& event) {
    return event.begin_ns >= begin_ns ? exact(event.begin_ns - begin_ns)
                                      : -exact(begin_ns - event.begin_ns);
  });
  put("duration", [](const WindowEvent& event) { return exact(event.duration_ns); });
  put("file", [&](const WindowEvent& event) {
    const bool is_none = is_region(event) || event.file == NameIndex{};
    return is_none ? int64_t{-1} : static_cast<int64_t>(names.of(event.file));
  });
  put("offset", [](const WindowEvent& event) { return offset_of(event); });
  put("size", [](const WindowEvent& event) { return size_of(event); });
  put("result", [](const WindowEvent& event) { return exact(event.result); });
  put("error", [](const WindowEvent& event) { return event.error; });
  out += '}';
}

void put_level(const DetailLevel& level, const ThreadList& threads, std::string& out) {
  fmt::format_to(std::back_inserter(out), "{{\"bin_ns\":{},\"rows\":[", exact(level.bin_ns));
  for (size_t i = 0; i < level.rows.size(); ++i) {
    if (i > 0) out += ',';
    const LevelRow& row = level.rows[i];
    fmt::format_to(std::back_inserter(out), "{{\"thread\":{},\"layer\":{},", threads.of(row.thread),
                   static_cast<int>(row.layer));
    put_list("busy", row.busy, [](uint16_t busy) { return busy; }, out);
    out += '}';
  }
  out += "]}";
}

}  // namespace

std::string detail_json(const Context& context, const Profile& profile,
                        const DetailLimits& limits) {
  const std::vector<Window> windows = make_windows(context, profile, limits);
  const std::vector<DetailLevel> levels = make_levels(context, limits);
  const ThreadList threads(context, windows, levels);
  NameList names(context.trace);
  std::string shown = "\"windows\":[";
  for (size_t i = 0; i < windows.size(); ++i) {
    if (i > 0) shown += ',';
    put_window(context, windows[i], threads, names, shown);
  }
  shown += "],\"levels\":[";
  for (size_t i = 0; i < levels.size(); ++i) {
    if (i > 0) shown += ',';
    put_level(levels[i], threads, shown);
  }
  shown += ']';
  uint64_t first_ns = context.begin_ns;
  for (const trace::BlockInfo& block : context.trace.blocks()) {
    first_ns = std::min(first_ns, block.begin_ns);
  }
  std::string out = fmt::format("{{\"origin_ns\":{},", exact(context.begin_ns - first_ns));
  put_list("names", names.names(), json_string, out);
  out += ',';
  threads.put(out);
  out += ',';
  out += shown;
  out += "}\n";
  return out;
}

}  // namespace millrace::analyze
