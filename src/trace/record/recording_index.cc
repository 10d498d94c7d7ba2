#include "trace/record/recording_index.h"

#include <tuple>

namespace millrace::trace {

ProcessEntry process_entry(const wire::ProcessPage& page, uint32_t pid,
                           const std::string& recording, const TickMap& ticks) {
  ProcessEntry entry;
  entry.recording = recording;
  Process& process = entry.process;
  process.pid = pid;
  process.rank = page.rank;
  process.world_size = page.world_size;
  entry.rank_origin = page.rank_origin;
  process.start_ns = ticks.since_first_ns(page.start_ticks);
  if (pid != page.pid) {
    process.parent_pid = page.pid;
    process.origin = wire::ProcessOrigin::kFork;
    return entry;
  }
  process.parent_pid = page.parent_pid;
  process.origin = page.origin;
  process.exited = page.exited == 1;
  process.exit_code = page.exit_code;
  process.major_faults = page.major_faults;
  process.minor_faults = page.minor_faults;
  for (size_t i = 0; i < 2; ++i) {
    entry.peer[i] = {page.peer_offset_ns[i], page.peer_uncertainty_ns[i], page.peer_at_ns[i]};
  }
  return entry;
}

std::map<std::string, std::string> find_joined(
    const std::map<std::string, wire::ProcessPage>& pages) {
  using Life = std::tuple<uint32_t, uint64_t, uint64_t>;  // PID, process start, program start
  const auto life_of = [](const wire::ProcessPage& page) {
    return Life(page.pid, page.start_time, page.start_ticks);
  };
  std::map<Life, std::string> outside;
  for (const auto& [name, page] : pages) {
    if (page.recorded_from == wire::RecordedFrom::kOutside) outside.emplace(life_of(page), name);
  }
  std::map<std::string, std::string> joined;
  for (const auto& [name, page] : pages) {
    if (page.recorded_from == wire::RecordedFrom::kOutside) continue;
    const auto after = outside.upper_bound(life_of(page));
    if (after == outside.begin()) continue;
    const auto& [life, outside_name] = *std::prev(after);
    if (std::get<0>(life) == page.pid && std::get<1>(life) == page.start_time) {
      joined[name] = outside_name;
    }
  }
  return joined;
}

void take_from_inside(ProcessEntry& entry, const wire::ProcessPage& inside) {
  if (inside.rank >= 0) {
    entry.process.rank = inside.rank;
    entry.process.world_size = inside.world_size;
    entry.rank_origin = inside.rank_origin;
  }
  for (size_t i = 0; i < 2; ++i) {
    if (inside.peer_uncertainty_ns[i] == 0) continue;
    entry.peer[i] = {inside.peer_offset_ns[i], inside.peer_uncertainty_ns[i], inside.peer_at_ns[i]};
  }
}

void RecordingIndex::remember(const Tables& tables) {
  for (size_t i = 0; i < tables.processes.size(); ++i) {
    const ProcessEntry& entry = tables.processes[i];
    processes_.emplace(std::pair(entry.recording, entry.process.pid), static_cast<ProcessIndex>(i));
  }
  for (size_t i = 0; i < tables.threads.size(); ++i) {
    const Thread& thread = tables.threads[i];
    threads_.emplace(std::pair(static_cast<uint32_t>(thread.process), thread.tid),
                     static_cast<ThreadIndex>(i));
  }
}

NameIndex RecordingIndex::name(wire::NameId id) {
  if (id == wire::kNoName) return NameIndex{};
  const auto [found, is_new] = names_.try_emplace(static_cast<uint32_t>(id));
  if (!is_new) return found->second;
  const auto text = read_name(names_source_, id);
  if (text.ok()) {
    found->second = registry_.add_name(*text);
  } else {
    problems_.push_back(text.error().message());
    found->second =
        registry_.add_name(fmt::format("<unreadable name {}>", static_cast<uint32_t>(id)));
  }
  return found->second;
}

ProcessIndex RecordingIndex::process(const wire::ProcessPage& page, uint32_t pid,
                                     const std::string& recording, const TickMap& ticks) {
  const auto join = joined_.find(recording);
  const std::string& name_of_process = join == joined_.end() ? recording : join->second;
  const auto key = std::pair(name_of_process, pid);
  if (const auto found = processes_.find(key); found != processes_.end()) return found->second;
  ProcessEntry entry = process_entry(page, pid, name_of_process, ticks);
  entry.process.executable = name(page.executable);
  entry.process.command_line = name(page.command_line);
  entry.process.working_directory = name(page.working_directory);
  return processes_.emplace(key, registry_.add_process(entry)).first->second;
}

ThreadIndex RecordingIndex::thread(ProcessIndex process, uint32_t tid) {
  const auto key = std::pair(static_cast<uint32_t>(process), tid);
  if (const auto found = threads_.find(key); found != threads_.end()) return found->second;
  return threads_.emplace(key, registry_.add_thread({process, tid})).first->second;
}

const NameIndex* RecordingIndex::find_name(wire::NameId id) const {
  const auto found = names_.find(static_cast<uint32_t>(id));
  return found == names_.end() ? nullptr : &found->second;
}

const ThreadIndex* RecordingIndex::find_thread(ProcessIndex process, uint32_t tid) const {
  const auto found = threads_.find(std::pair(static_cast<uint32_t>(process), tid));
  return found == threads_.end() ? nullptr : &found->second;
}

NameIndex RecordingIndex::origin_pid() { return registry_.add_name("origin_pid"); }
NameIndex RecordingIndex::origin_tid() { return registry_.add_name("origin_tid"); }

}  // namespace millrace::trace
