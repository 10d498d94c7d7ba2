#include "trace/trace.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "trace/read/alignment.h"
#include "trace/read/clock_doubt.h"
#include "trace/read/divided_tasks.h"
#include "trace/read/members.h"

namespace millrace::trace {
namespace {

struct BlockPlace {
  uint32_t member = 0;
  uint32_t block = 0;
  uint32_t session = 0;  // whose clock its times use
};

// Maps the indices of a member to those of the trace.
struct MemberMaps {
  std::vector<NameIndex> names;
  std::vector<uint32_t> sessions;
  std::vector<ProcessIndex> processes;
  std::vector<ThreadIndex> threads;
  bool names_are_equal = false;  // the map is the identity and need not be applied
  bool threads_are_equal = false;
};

// The names of all members, without duplicates. A hash table of our own, not an unordered_map: its
// nodes for a million names would take as much memory as the names.
class JoinedNames {
 public:
  NameIndex add(std::string name) {
    if (name.empty()) return NameIndex{};
    if (2 * names_.size() >= places_.size()) grow();
    const size_t place = place_of(name);
    if (places_[place] == 0) {
      places_[place] = static_cast<uint32_t>(names_.size());
      names_.push_back(std::move(name));
    }
    return static_cast<NameIndex>(places_[place]);
  }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  // The place of the name, or where it would be inserted.
  size_t place_of(std::string_view name) const {
    const size_t mask = places_.size() - 1;
    size_t place = std::hash<std::string_view>()(name) & mask;
    while (places_[place] != 0 && names_[places_[place]] != name) place = (place + 1) & mask;
    return place;
  }

  void grow() {
    places_.assign(std::max<size_t>(64, 2 * places_.size()), 0);
    for (size_t i = 1; i < names_.size(); ++i) {
      places_[place_of(names_[i])] = static_cast<uint32_t>(i);
    }
  }

  std::vector<std::string> names_ = {""};
  std::vector<uint32_t> places_;  // the size is a power of two; 0: free
};

template <typename Index>
bool is_identity(const std::vector<Index>& map) {
  for (size_t i = 0; i < map.size(); ++i) {
    if (static_cast<size_t>(map[i]) != i) return false;
  }
  return true;
}

}  // namespace

struct Trace::State {
  void join(Member& member, JoinedNames& joined_names);
  void join_processes(const Tables& tables, MemberMaps& maps);
  uint32_t join_session(const SessionEntry& entry, int64_t origin_wall_ns);
  void leave_out_launchers();
  void align();
  void apply(const MemberMaps& maps, const ClockMap& clock, EventColumns& columns) const;

  std::vector<std::unique_ptr<Member>> members;
  std::vector<MemberMaps> maps;
  std::vector<std::string> names;
  std::vector<SessionEntry> session_entries;
  std::vector<int64_t> session_origins;  // of the files that they come from
  std::vector<ProcessEntry> process_entries;
  std::vector<ClockMap> clocks;  // by session
  std::vector<Session> sessions;
  std::vector<Process> processes;
  std::vector<Thread> threads;
  std::vector<LostEvents> losses;
  std::vector<BlockInfo> blocks;
  std::vector<BlockPlace> places;
  std::vector<std::string> problems;
  uint64_t event_count = 0;
  int64_t origin_wall_ns = 0;

  std::map<std::tuple<uint32_t, std::string, uint32_t>, ProcessIndex> recorded_processes;
  std::map<std::pair<uint32_t, uint32_t>, ThreadIndex> thread_index;
};

// A partly packed recording is two members of one session, identified by when and where it began.
uint32_t Trace::State::join_session(const SessionEntry& entry, int64_t origin) {
  for (uint32_t i = 0; i < session_entries.size(); ++i) {
    SessionEntry& known = session_entries[i];
    if (!is_same_recording(known, entry)) continue;
    if (entry.clock.last.monotonic_ns > known.clock.last.monotonic_ns) {
      known.clock.last = entry.clock.last;
    }
    return i;
  }
  session_entries.push_back(entry);
  session_origins.push_back(origin);
  return static_cast<uint32_t>(session_entries.size() - 1);
}

void Trace::State::join_processes(const Tables& tables, MemberMaps& map) {
  for (const ProcessEntry& member_entry : tables.processes) {
    ProcessEntry entry = member_entry;
    entry.process.session = map.sessions[entry.process.session];
    for (NameIndex* name : {&entry.process.executable, &entry.process.command_line,
                            &entry.process.working_directory}) {
      *name = map.names[static_cast<size_t>(*name)];
    }
    const auto next = static_cast<ProcessIndex>(process_entries.size());
    if (!entry.recording.empty()) {
      const auto [found, is_new] = recorded_processes.try_emplace(
          {entry.process.session, entry.recording, entry.process.pid}, next);
      if (!is_new) {
        ProcessEntry& known = process_entries[static_cast<size_t>(found->second)];
        entry.process.end_ns = std::max(entry.process.end_ns, known.process.end_ns);
        known = entry;  // the recording's own page is newer
        map.processes.push_back(found->second);
        continue;
      }
    }
    process_entries.push_back(std::move(entry));
    map.processes.push_back(next);
  }
}

void Trace::State::join(Member& member, JoinedNames& joined_names) {
  const Tables& tables = member.tables();
  MemberMaps map;
  std::vector<std::string> member_names = member.release_names();
  map.names.reserve(member_names.size());
  for (std::string& name : member_names) map.names.push_back(joined_names.add(std::move(name)));
  for (const SessionEntry& entry : tables.sessions) {
    map.sessions.push_back(join_session(entry, member.origin_wall_ns()));
  }
  join_processes(tables, map);
  for (Thread thread : tables.threads) {
    thread.process = map.processes[static_cast<size_t>(thread.process)];
    const auto next = static_cast<ThreadIndex>(threads.size());
    const auto [found, is_new] =
        thread_index.try_emplace({static_cast<uint32_t>(thread.process), thread.tid}, next);
    if (is_new) threads.push_back(thread);
    map.threads.push_back(found->second);
  }
  for (LostEvents loss : tables.losses) {
    if (loss.process != kNoProcess) loss.process = map.processes[static_cast<size_t>(loss.process)];
    losses.push_back(loss);
  }
  for (size_t i = 0; i < member.blocks().size(); ++i) {
    BlockInfo block = member.blocks()[i];
    block.process = map.processes[static_cast<size_t>(block.process)];
    const uint32_t session = process_entries[static_cast<size_t>(block.process)].process.session;
    blocks.push_back(block);
    places.push_back({static_cast<uint32_t>(maps.size()), static_cast<uint32_t>(i), session});
    event_count += block.event_count;
  }
  problems.insert(problems.end(), member.problems().begin(), member.problems().end());
  map.names_are_equal = is_identity(map.names);
  map.threads_are_equal = is_identity(map.threads);
  maps.push_back(std::move(map));
}

// torchrun's agents and similar helpers are not ranks, although srun or mpirun gave them one.
void Trace::State::leave_out_launchers() {
  DividedTasks divided;
  for (const ProcessEntry& entry : process_entries) {
    divided.add(entry.process.session, entry.rank_origin);
  }
  for (ProcessEntry& entry : process_entries) {
    Process& process = entry.process;
    if (!divided.is_around_ranks(process.session, process.rank, entry.rank_origin)) continue;
    process.rank = -1;
    process.world_size = -1;
  }
}

void Trace::State::align() {
  std::vector<AlignmentInput> inputs(session_entries.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].session = &session_entries[i];
    inputs[i].file_origin_wall_ns = session_origins[i];
  }
  for (const ProcessEntry& entry : process_entries) {
    inputs[entry.process.session].processes.push_back(&entry);
  }
  Alignment alignment = align_sessions(inputs);
  clocks = std::move(alignment.maps);
  origin_wall_ns = alignment.origin_wall_ns;
  if (inputs.empty() && !members.empty()) origin_wall_ns = members.front()->origin_wall_ns();
  const auto common = [&](uint32_t session, uint64_t time_ns) {
    return static_cast<uint64_t>(
        std::max<int64_t>(0, clocks[session].apply(static_cast<int64_t>(time_ns))));
  };
  for (const SessionEntry& entry : session_entries) sessions.push_back(entry.session);
  for (ProcessEntry& entry : process_entries) {
    Process& process = entry.process;
    process.start_ns = common(process.session, process.start_ns);
    process.end_ns = common(process.session, process.end_ns);
    processes.push_back(process);
  }
  for (std::string& doubt : doubtful_clocks(sessions, processes)) {
    problems.push_back(std::move(doubt));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].begin_ns = common(places[i].session, blocks[i].begin_ns);
    blocks[i].end_ns = common(places[i].session, blocks[i].end_ns);
  }
  for (LostEvents& loss : losses) {
    const uint32_t session =
        loss.process == kNoProcess ? 0 : processes[static_cast<size_t>(loss.process)].session;
    if (session >= clocks.size()) continue;
    loss.first_ns = common(session, loss.first_ns);
    loss.last_ns = common(session, loss.last_ns);
  }
}

void Trace::State::apply(const MemberMaps& map, const ClockMap& clock,
                         EventColumns& columns) const {
  if (!map.names_are_equal) {
    for (NameIndex& file : columns.file) file = map.names[static_cast<size_t>(file)];
    for (NameIndex& file : columns.other_file) file = map.names[static_cast<size_t>(file)];
    for (RegionTag& tag : columns.tags) {
      tag.key = map.names[static_cast<size_t>(tag.key)];
      if (tag.kind == wire::TagKind::kText) tag.value = static_cast<uint64_t>(map.names[tag.value]);
    }
  }
  if (!map.threads_are_equal) {
    for (ThreadIndex& thread : columns.thread) thread = map.threads[static_cast<size_t>(thread)];
  }
  if (clock.is_shift()) {
    const auto shift = static_cast<uint64_t>(clock.reference_ns - clock.at_ns);
    if (shift == 0) return;
    for (uint64_t& begin : columns.begin_ns) begin += shift;
    return;
  }
  for (size_t i = 0; i < columns.size_events(); ++i) {
    const auto begin = static_cast<int64_t>(columns.begin_ns[i]);
    const int64_t end = clock.apply(begin + static_cast<int64_t>(columns.duration_ns[i]));
    columns.begin_ns[i] = static_cast<uint64_t>(clock.apply(begin));
    columns.duration_ns[i] = static_cast<uint64_t>(end) - columns.begin_ns[i];
  }
}

Trace::Trace(std::unique_ptr<State> state) : state_(std::move(state)) {}
Trace::Trace(Trace&&) noexcept = default;
Trace& Trace::operator=(Trace&&) noexcept = default;
Trace::~Trace() = default;

Result<Trace> Trace::open(const std::string& path) {
  ASSIGN_OR_RETURN(OpenedMembers opened, open_members(path));
  return of_members(std::move(opened));
}

Result<Trace> Trace::open_all(const std::vector<std::string>& paths) {
  ASSIGN_OR_RETURN(OpenedMembers opened, open_members(without_repeats(paths)));
  return of_members(std::move(opened));
}

Trace Trace::of_members(OpenedMembers opened) {
  auto state = std::make_unique<State>();
  state->members = std::move(opened.members);
  state->problems = std::move(opened.problems);
  JoinedNames joined_names;
  for (const auto& member : state->members) state->join(*member, joined_names);
  state->names = joined_names.take();
  state->leave_out_launchers();
  state->align();
  return Trace(std::move(state));
}

const std::vector<std::string>& Trace::names() const { return state_->names; }
std::string_view Trace::name(NameIndex index) const {
  return state_->names[static_cast<size_t>(index)];
}
const std::vector<Session>& Trace::sessions() const { return state_->sessions; }
const std::vector<Process>& Trace::processes() const { return state_->processes; }
const std::vector<Thread>& Trace::threads() const { return state_->threads; }
const std::vector<LostEvents>& Trace::losses() const { return state_->losses; }
const std::vector<BlockInfo>& Trace::blocks() const { return state_->blocks; }
const std::vector<std::string>& Trace::problems() const { return state_->problems; }
uint64_t Trace::event_count() const { return state_->event_count; }
int64_t Trace::origin_wall_ns() const { return state_->origin_wall_ns; }

Result<uint32_t> Trace::block_levels(size_t index) const {
  const BlockPlace& place = state_->places[index];
  return state_->members[place.member]->levels(place.block);
}

Status Trace::read_block(size_t index, EventColumns& columns) const {
  const BlockPlace& place = state_->places[index];
  RETURN_IF_ERROR(state_->members[place.member]->read(place.block, columns));
  state_->apply(state_->maps[place.member], state_->clocks[place.session], columns);
  return {};
}

}  // namespace millrace::trace
