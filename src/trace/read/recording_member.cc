#include "trace/read/recording_member.h"

#include <algorithm>

#include "trace/pack/block_codec.h"

namespace millrace::trace {
namespace {

// Names and threads found during opening. Reading only looks them up.
class KnownNames {
 public:
  explicit KnownNames(const RecordingIndex& index) : index_(index) {}

  NameIndex operator()(wire::NameId id) {
    if (id == wire::kNoName) return NameIndex{};
    const NameIndex* found = index_.find_name(id);
    complete_ = complete_ && found != nullptr;
    return found == nullptr ? NameIndex{} : *found;
  }
  NameIndex origin_pid() const { return origin_pid_; }
  NameIndex origin_tid() const { return origin_tid_; }
  void set_origins(NameIndex pid, NameIndex tid) {
    origin_pid_ = pid;
    origin_tid_ = tid;
  }
  bool complete() const { return complete_; }

 private:
  const RecordingIndex& index_;
  bool complete_ = true;
  NameIndex origin_pid_{};
  NameIndex origin_tid_{};
};

class KnownThreads {
 public:
  KnownThreads(const RecordingIndex& index, ProcessIndex process)
      : index_(index), process_(process) {}

  ThreadIndex operator()(HostThread thread) {
    const ThreadIndex* found = index_.find_thread(process_, thread.tid);
    complete_ = complete_ && found != nullptr;
    return found == nullptr ? ThreadIndex{} : *found;
  }
  bool complete() const { return complete_; }

 private:
  const RecordingIndex& index_;
  ProcessIndex process_;
  bool complete_ = true;
};

// What one pass over a group of chunks finds out about each process in it.
struct Survey {
  uint64_t events = 0;
  uint64_t begin_ns = ~uint64_t{0};
  uint64_t end_ns = 0;
  uint32_t levels = 0;
};

}  // namespace

RecordingMember::RecordingMember(RecordingInput input)
    : input_(std::move(input)), index_(*this, std::move(input_.names)) {
  tables_.sessions.push_back(input_.session);
  // The two tags of regions that began elsewhere. Registered first, so that reading finds them.
  origin_pid_ = index_.origin_pid();
  origin_tid_ = index_.origin_tid();
  join_recordings();
  for (size_t i = 0; i < input_.recordings.size(); ++i) survey(i);
  const wire::LossCounters& lost = input_.session_lost;
  if (lost.events != 0 || lost.names != 0) {
    tables_.losses.push_back({.process = kNoProcess,
                              .events = lost.events,
                              .names = lost.names,
                              .first_ns = input_.ticks.since_first_ns(lost.first_ticks),
                              .last_ns = input_.ticks.since_first_ns(lost.last_ticks),
                              .error = static_cast<int>(lost.error)});
  }
  name_index_ = {};
  for (std::string& problem : index_.take_problems()) {
    input_.problems.push_back(input_.session.directory + ": " + std::move(problem));
  }
}

NameIndex RecordingMember::add_name(std::string_view name) {
  if (name.empty()) return NameIndex{};
  const auto next = static_cast<NameIndex>(tables_.names.size());
  const auto [found, is_new] = name_index_.try_emplace(std::string(name), next);
  if (is_new) tables_.names.emplace_back(name);
  return found->second;
}

ProcessIndex RecordingMember::add_process(const ProcessEntry& entry) {
  tables_.processes.push_back(entry);
  return static_cast<ProcessIndex>(tables_.processes.size() - 1);
}

ThreadIndex RecordingMember::add_thread(const Thread& thread) {
  tables_.threads.push_back(thread);
  return static_cast<ThreadIndex>(tables_.threads.size() - 1);
}

void RecordingMember::join_recordings() {
  std::map<std::string, wire::ProcessPage> pages;
  for (const OpenedRecording& opened : input_.recordings) {
    pages.emplace(opened.name, opened.recording.page());
  }
  index_.set_joined(find_joined(pages));
  // Recordings from outside first: they cover the whole life of the process.
  std::stable_partition(
      input_.recordings.begin(), input_.recordings.end(),
      [&](const OpenedRecording& opened) { return !index_.is_joined(opened.name); });
}

void RecordingMember::survey(size_t recording) {
  const OpenedRecording& opened = input_.recordings[recording];
  for (const std::string& problem : opened.recording.problems()) {
    input_.problems.push_back(
        fmt::format("{}/{}: {}", input_.session.directory, opened.name, problem));
  }
  // A process without events is added too.
  const wire::ProcessPage& page = opened.recording.page();
  const ProcessIndex process = index_.process(page, page.pid, opened.name, input_.ticks);
  if (index_.is_joined(opened.name)) {
    take_from_inside(tables_.processes[static_cast<size_t>(process)], page);
  }
  for (const ChunkGroup& group : group_chunks(opened.recording.chunks())) {
    survey_chunks(recording, group.first, group.count);
  }
  add_losses(opened);
}

void RecordingMember::survey_chunks(size_t recording, size_t first, size_t count) {
  const OpenedRecording& opened = input_.recordings[recording];
  const wire::ProcessPage& page = opened.recording.page();
  std::map<uint32_t, Survey> surveys;
  EventColumns columns;
  Chunk chunk;
  uint64_t broken = 0;
  for (size_t i = first; i < first + count; ++i) {
    const Status status = opened.recording.read_chunk(opened.recording.chunks()[i], chunk);
    if (!status.ok()) {
      input_.problems.push_back(fmt::format("{}/{}.log: {}", input_.session.directory, opened.name,
                                            status.error().message()));
      continue;
    }
    RegisteringNames names(index_);
    broken += visit_events(chunk, [&](std::span<const wire::TraceSlot> slots, HostThread thread) {
      clear(columns);
      RegisteringThreads threads(index_,
                                 index_.process(page, thread.pid, opened.name, input_.ticks));
      EventAppender appender(input_.ticks, names, threads, columns);
      appender.append(slots, thread);
      Survey& survey = surveys[thread.pid];
      ++survey.events;
      survey.levels |= level_bit(columns.call[0]);
      survey.begin_ns = std::min(survey.begin_ns, columns.begin_ns[0]);
      survey.end_ns = std::max(survey.end_ns, columns.begin_ns[0] + columns.duration_ns[0]);
    });
  }
  if (broken > 0) {
    input_.problems.push_back(fmt::format("{}/{}: {} broken events were skipped",
                                          input_.session.directory, opened.name, broken));
  }
  for (const auto& [pid, survey] : surveys) {
    const ProcessIndex process = index_.process(page, pid, opened.name, input_.ticks);
    Process& entry = tables_.processes[static_cast<size_t>(process)].process;
    entry.end_ns = std::max(entry.end_ns, survey.end_ns);
    blocks_.push_back({survey.events, survey.begin_ns, survey.end_ns, process});
    sources_.push_back({recording, first, count, pid, survey.levels});
  }
}

void RecordingMember::add_losses(const OpenedRecording& opened) {
  const wire::ProcessPage& page = opened.recording.page();
  if (page.lost.events == 0 && page.lost.names == 0) return;
  tables_.losses.push_back({.process = index_.process(page, page.pid, opened.name, input_.ticks),
                            .events = page.lost.events,
                            .names = page.lost.names,
                            .first_ns = input_.ticks.since_first_ns(page.lost.first_ticks),
                            .last_ns = input_.ticks.since_first_ns(page.lost.last_ticks),
                            .error = static_cast<int>(page.lost.error)});
}

Status RecordingMember::read(size_t block, EventColumns& columns) const {
  const BlockSource& source = sources_[block];
  const OpenedRecording& opened = input_.recordings[source.recording];
  clear(columns);
  KnownNames names(index_);
  names.set_origins(origin_pid_, origin_tid_);
  KnownThreads threads(index_, blocks_[block].process);
  EventAppender appender(input_.ticks, names, threads, columns);
  Chunk chunk;
  for (size_t i = source.first_chunk; i < source.first_chunk + source.chunk_count; ++i) {
    RETURN_IF_ERROR(opened.recording.read_chunk(opened.recording.chunks()[i], chunk)
                        .within(fmt::format("{}/{}.log", input_.session.directory, opened.name)));
    visit_events(chunk, [&](std::span<const wire::TraceSlot> slots, HostThread thread) {
      if (thread.pid == source.pid) appender.append(slots, thread);
    });
  }
  appender.finish();
  if (columns.size_events() == blocks_[block].event_count && names.complete() &&
      threads.complete()) {
    return {};
  }
  return fail(Errc::kCorrupt,
              "{}/{}: the recording changed while it was read. Open the trace again",
              input_.session.directory, opened.name);
}

Result<std::unique_ptr<RecordingMember>> RecordingMember::open(
    const std::filesystem::path& directory, const std::map<std::string, Consumed>& consumed,
    const std::vector<wire::ClockSample>& clock_samples) {
  ASSIGN_OR_RETURN(const SessionDirectory session, SessionDirectory::open(directory));
  std::vector<OpenedRecording> recordings;
  std::vector<wire::ProcessPage> pages;
  std::vector<std::string> problems;
  for (const std::string& name : session.process_recordings()) {
    const auto known = consumed.find(name);
    const Consumed before = known == consumed.end() ? Consumed{} : known->second;
    if (before.done) continue;
    auto recording = session.read(name, before, ProcessRecording::Extent::kAll);
    if (!recording.ok()) {
      problems.push_back(recording.error().message());
      continue;
    }
    pages.push_back(recording->page());
    recordings.push_back({name, *std::move(recording)});
  }
  // After the rings, because a name is stored before the events that use it.
  auto names = session.names();
  if (!names.ok()) {
    problems.push_back(names.error().message());
    names = ByteSource(ByteView());
  }
  TickMap ticks = session.tick_map(clock_samples, pages);
  if (!ticks.has_rate()) {
    problems.push_back(
        fmt::format("{}: the counter's rate is unknown, because the session has only one "
                    "clock sample; a tick is counted as a nanosecond",
                    directory.string()));
  }
  SessionEntry entry = session.entry();
  entry.clock.last = ticks.samples().back();
  const auto session_known = consumed.find("session");
  const bool losses_known = session_known != consumed.end() && session_known->second.done;
  return std::make_unique<RecordingMember>(
      RecordingInput{.session = std::move(entry),
                     .session_lost = losses_known ? wire::LossCounters{} : session.page().lost,
                     .names = *std::move(names),
                     .ticks = std::move(ticks),
                     .recordings = std::move(recordings),
                     .problems = std::move(problems)});
}

}  // namespace millrace::trace
