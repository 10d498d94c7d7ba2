#include "watch/session_follower.h"

#include <algorithm>
#include <cstdlib>

#include "base/io/file.h"
#include "trace/pack/packer.h"
#include "trace/read/divided_tasks.h"
#include "trace/record/recording_index.h"

namespace millrace::watch {

namespace fs = std::filesystem;
using trace::EventColumns;
using trace::Life;
using trace::NameIndex;

namespace {

constexpr size_t kBatchEvents = 4096;
constexpr size_t kNobody = ~size_t{0};

// The highest bit marks names of the packed trace. Names of the recording never reach it: their
// table would be 16 GiB.
constexpr uint32_t kPackedName = 0x8000'0000;

// Names keep the ids of the recording, because only the few that are shown are ever looked up.
struct RecordedNames {
  NameIndex operator()(wire::NameId id) const { return NameIndex{static_cast<uint32_t>(id)}; }
  static NameIndex origin_pid() { return {}; }
  static NameIndex origin_tid() { return {}; }
};
struct RecordedThreads {
  trace::ThreadIndex operator()(trace::HostThread thread) const {
    return trace::ThreadIndex{thread.tid};
  }
};

wire::ProcessPage page_from(const trace::ProcessEntry& entry) {
  const trace::Process& process = entry.process;
  wire::ProcessPage page{.magic = wire::kProcessMagic};
  page.pid = process.pid;
  page.parent_pid = process.parent_pid;
  page.origin = process.origin;
  page.rank = process.rank;
  page.world_size = process.world_size;
  page.rank_origin = entry.rank_origin;
  page.exited = process.exited ? 1 : 0;
  page.exit_code = process.exit_code;
  const auto name = static_cast<uint32_t>(process.command_line);
  page.command_line = wire::NameId{name == 0 ? 0 : name | kPackedName};
  return page;
}

template <size_t kSize>
void copy_text(const std::string& text, char (&field)[kSize]) {
  text.copy(field, kSize - 1);
}

wire::SessionPage page_from(const trace::SessionEntry& entry) {
  wire::SessionPage page{};
  copy_text(entry.session.host, page.host);
  copy_text(entry.session.boot_id, page.boot_id);
  page.launcher_pid = entry.session.launcher_pid;
  page.levels = entry.session.levels;
  page.counter = entry.clock.counter;
  page.first = entry.clock.first;
  page.last = entry.clock.last;
  return page;
}

void copy_event(const EventColumns& from, size_t event, uint32_t tid, EventColumns& to) {
  const auto packed_name = [](NameIndex name) {
    const auto number = static_cast<uint32_t>(name);
    return NameIndex{number == 0 ? 0 : number | kPackedName};
  };
  trace::for_each_column([&](auto column) { (to.*column).push_back((from.*column)[event]); });
  to.file.back() = packed_name(to.file.back());
  to.other_file.back() = packed_name(to.other_file.back());
  to.thread.back() = trace::ThreadIndex{tid};
}

}  // namespace

// Collects events of one process and passes them to the visitor a few thousand at a time.
class SessionFollower::Batch {
 public:
  Batch(size_t process, const Visit& visit) : process_(process), visit_(visit) {}
  ~Batch() { flush(); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  EventColumns& columns() { return columns_; }
  void flush_if_full() {
    if (columns_.size_events() >= kBatchEvents) flush();
  }

 private:
  void flush() {
    if (columns_.size_events() > 0) visit_(process_, columns_);
    clear(columns_);
  }

  size_t process_;
  const Visit& visit_;
  EventColumns columns_;
};

Result<SessionFollower> SessionFollower::open(const fs::path& directory, Start start) {
  ASSIGN_OR_RETURN(trace::SessionDirectory session, trace::SessionDirectory::open(directory));
  fs::path packed_path = trace::Packer::default_output(directory);
  return SessionFollower(std::move(session), start, std::move(packed_path));
}

Result<SessionFollower> SessionFollower::open_packed(const fs::path& file) {
  ASSIGN_OR_RETURN(trace::ByteSource source, trace::ByteSource::from_file(file.string()));
  ASSIGN_OR_RETURN(const auto packed, trace::PackedTrace::open(std::move(source), file.string()));
  if (!packed.is_packed_recording() || packed.tables().sessions.empty()) {
    return fail(Errc::kNotFound, "{}: contains no recorded session", file.string());
  }
  const trace::SessionEntry& entry = packed.tables().sessions.front();
  return SessionFollower(
      trace::SessionDirectory::removed(file.parent_path() / entry.directory, page_from(entry)),
      Start::kBeginning, file);
}

SessionFollower::SessionFollower(trace::SessionDirectory session, Start start, fs::path packed_path)
    : session_(std::move(session)),
      entry_(session_.entry()),
      start_(start),
      packed_path_(std::move(packed_path)) {}

void SessionFollower::look(const Visit& visit) {
  if (is_removed_) return;
  // Before the recording is read, so that the packed trace is not ahead of the log on the first
  // look.
  if (is_first_look_) find_packed();
  is_removed_ = !reopen();
  if (!is_removed_) {
    check_launcher();
    find_processes();
    read_pages();
    read_tails(visit, false);
  }
  read_packed(visit);
  if (is_removed_) {
    end_removed();
  } else {
    read_tails(visit, true);
  }
  leave_out_launchers();
  is_first_look_ = false;
}

// torchrun's agents and the like are not ranks, although srun or mpirun gave them a rank.
void SessionFollower::leave_out_launchers() {
  trace::DividedTasks divided;
  for (const FollowedProcess& process : processes_) divided.add(0, process.page.rank_origin);
  for (FollowedProcess& process : processes_) {
    wire::ProcessPage& page = process.page;
    if (!divided.is_around_ranks(0, page.rank, page.rank_origin)) continue;
    page.rank = -1;
    page.world_size = -1;
  }
}

// Rereads the session's page for its counters. Returns false if the session is gone.
bool SessionFollower::reopen() {
  auto again = trace::SessionDirectory::open(session_.path());
  if (again.ok()) {
    session_ = *std::move(again);
    if (!names_) {
      if (auto names = session_.names(); names.ok()) names_ = *std::move(names);
    }
    return true;
  }
  if (!trace::SessionDirectory::is_one(session_.path())) return false;
  note(again.error().message());
  return true;
}

// Called before the search for processes: if the launcher had already ended, it cannot have started
// a process that the search misses.
void SessionFollower::check_launcher() {
  wire::ProcessPage launcher{};
  launcher.pid = session_.page().launcher_pid;
  // If the launcher is unknown, or not visible from here, it counts as ended once there are
  // processes and all of them have ended.
  launcher_ = launcher.pid == 0 ? Life::kElsewhere : session_.life_of(launcher, {});
}

size_t SessionFollower::add_process(const std::string& recording) {
  const size_t process = processes_.size();
  processes_.push_back({.recording = recording});
  tails_.emplace_back();
  by_recording_.emplace(recording, process);
  return process;
}

void SessionFollower::find_processes() {
  for (Tail& tail : tails_) tail.is_seen = false;
  for (const std::string& recording : session_.process_recordings()) {
    const auto known = by_recording_.find(recording);
    const size_t process = known == by_recording_.end() ? add_process(recording) : known->second;
    tails_[process].is_seen = true;
  }
}

std::map<std::string, wire::ProcessPage> SessionFollower::read_each_page() {
  std::map<std::string, wire::ProcessPage> pages;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (tails_[i].is_complete) continue;
    if (!tails_[i].is_seen) {
      count_failure(i, "");
      continue;
    }
    const auto page = session_.read_process(processes_[i].recording);
    if (!page.ok()) {
      tails_[i].is_seen = false;
      if (!is_being_created(processes_[i].recording)) count_failure(i, page.error().message());
      continue;
    }
    tails_[i].failures = 0;
    processes_[i].page = *page;
    pages.emplace(processes_[i].recording, *page);
  }
  return pages;
}

// True if the page has no magic number yet but the process of the file's name, PID-TICKS, is alive.
// It may wait for the CPU or the disk for any length of time.
bool SessionFollower::is_being_created(const std::string& recording) const {
  wire::ProcessPage page{};
  page.pid = static_cast<uint32_t>(std::strtoul(recording.c_str(), nullptr, 10));
  if (session_.life_of(page, {}) != Life::kRunning) return false;
  const auto rings = session_.open_rings(recording);
  if (!rings.ok()) return false;
  std::vector<std::byte> scratch;
  const auto mark =
      rings->view(0, std::min<size_t>(rings->size_bytes(), sizeof(page.magic)), scratch);
  return mark.ok() &&
         std::all_of(mark->begin(), mark->end(), [](auto byte) { return byte == std::byte{0}; });
}

// A page that cannot be read is just being created, or was just removed by a packer. If it stays
// unreadable, it no longer belongs to a process.
void SessionFollower::count_failure(size_t process, const std::string& why) {
  if (++tails_[process].failures < 2) return;
  processes_[process].life = Life::kEnded;
  if (!why.empty()) note(why);
}

void SessionFollower::read_pages() {
  const std::map<std::string, wire::ProcessPage> by_name = read_each_page();
  std::vector<wire::ProcessPage> pages;
  bool has_outside = false;
  for (const auto& [name, page] : by_name) {
    pages.push_back(page);
    has_outside = has_outside || page.recorded_from == wire::RecordedFrom::kOutside;
  }
  for (const auto& [name, page] : by_name) {
    processes_[by_recording_.at(name)].life = session_.life_of(page, pages);
  }
  if (!has_outside) return;
  for (const auto& [inside, outside] : trace::find_joined(by_name)) {
    inside_of_[outside] = by_recording_.at(inside);
  }
}

void SessionFollower::read_tails(const Visit& visit, bool only_behind) {
  std::vector<wire::ProcessPage> pages;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (!tails_[i].is_complete && tails_[i].is_seen) pages.push_back(processes_[i].page);
  }
  if (pages.empty()) return;
  const trace::TickMap ticks = session_.tick_map({}, pages);
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (tails_[i].is_complete || !tails_[i].is_seen) continue;
    if (only_behind && !tails_[i].tail.is_behind()) continue;
    read_tail(i, ticks, visit);
  }
}

Result<std::unique_ptr<trace::ByteSource>> SessionFollower::open_log(
    const std::string& recording) const {
  auto log = trace::ByteSource::from_file(session_.log_path(recording).string());
  // A packer removes the page first. Without the page, the log may be gone and the copied rings may
  // be holes; all of it is then in the packed trace.
  if (const auto page = session_.read_process(recording); !page.ok()) {
    return fail(Errc::kNotFound, "{}", page.error().message());
  }
  if (log.ok()) return std::make_unique<trace::ByteSource>(*std::move(log));
  if (log.error().code() == Errc::kNotFound) return std::unique_ptr<trace::ByteSource>();
  return std::move(log).error();
}

void SessionFollower::read_tail(size_t process, const trace::TickMap& ticks, const Visit& visit) {
  Tail& tail = tails_[process];
  const std::string& recording = processes_[process].recording;
  const auto rings = session_.open_rings(recording);
  if (!rings.ok()) {
    if (rings.error().code() != Errc::kNotFound) note(rings.error().message());
    return;
  }
  const auto open_log = [&] { return this->open_log(recording); };
  const bool is_over = processes_[process].life == Life::kEnded;
  if (is_first_look_ && start_ == Start::kNow) {
    tail.tail.skip(*rings, open_log);
    tail.attached_ns = std::max<uint64_t>(1, now_ns());
    tail.is_complete = is_over;
    return;
  }
  {
    Batch batch(process, visit);
    RecordedNames names;
    RecordedThreads threads;
    trace::EventAppender appender(ticks, names, threads, batch.columns());
    tail.tail.read(*rings, open_log, is_over,
                   [&](std::span<const wire::TraceSlot> slots, trace::HostThread thread) {
                     appender.append(slots, thread);
                     batch.flush_if_full();
                   });
  }
  for (const std::string& problem : tail.tail.take_problems()) {
    note(fmt::format("{}: {}", session_.rings_path(recording).string(), problem));
  }
  tail.is_complete = is_over && !tail.tail.is_behind();
}

// ---- what a packer took -------------------------------------------------------------------------

void SessionFollower::find_packed() {
  std::error_code error;
  if (!fs::exists(packed_path_, error)) return;
  auto source = trace::ByteSource::from_file(packed_path_.string());
  if (!source.ok()) return;
  auto file = trace::PackedTrace::open(*std::move(source), packed_path_.string());
  if (!file.ok() || !file->is_packed_recording()) return;  // just created, or not ours
  const auto& sessions = file->tables().sessions;
  if (sessions.empty() || !is_same_recording(sessions.front(), entry_)) return;
  packed_ = *std::move(file);
  if (!is_first_look_ || start_ == Start::kBeginning) return;
  packed_blocks_read_ = packed_->event_blocks().size();
  for (const auto& [recording, consumed] : packed_->consumed()) {
    if (consumed.done) packed_before_.insert(recording);
  }
}

void SessionFollower::read_packed(const Visit& visit) {
  if (!packed_) {
    find_packed();
  } else if (const Status status = packed_->read_on(); !status.ok()) {
    note(status.error().message());
  }
  if (!packed_) return;
  plan_packed();
  const size_t count = packed_->event_blocks().size();
  for (; packed_blocks_read_ < count; ++packed_blocks_read_) take_block(packed_blocks_read_, visit);
  for (size_t i = 0; i < tails_.size(); ++i) {
    const auto consumed = packed_->consumed().find(processes_[i].recording);
    if (consumed == packed_->consumed().end()) continue;
    tails_[i].tail.settle(consumed->second);
    tails_[i].delivered.clear();
    tails_[i].is_complete = tails_[i].is_complete || consumed->second.done;
    if (consumed->second.done) processes_[i].life = Life::kEnded;
  }
}

// Finds the recordings of which the packed trace has events that were not delivered.
void SessionFollower::plan_packed() {
  for (const trace::ProcessEntry& entry : packed_->tables().processes) {
    const bool is_new = !by_recording_.contains(entry.recording) &&
                        !packed_before_.contains(entry.recording) && !entry.recording.empty();
    if (!is_new) continue;
    processes_[add_process(entry.recording)].page = page_from(entry);
  }
  for (size_t i = 0; i < tails_.size(); ++i) {
    Tail& tail = tails_[i];
    const auto consumed = packed_->consumed().find(processes_[i].recording);
    tail.wants_packed = !tail.is_complete && consumed != packed_->consumed().end() &&
                        tail.tail.is_missing_some_of(consumed->second);
    if (tail.wants_packed) tail.delivered = tail.tail.delivered_before(consumed->second);
  }
}

// Returns the process whose recording an event came from. A process that is recorded from inside
// and from outside is one process to the packer; its POSIX calls are those from outside.
size_t SessionFollower::owner_of(const std::string& recording, wire::Call call) const {
  const auto known = by_recording_.find(recording);
  if (known == by_recording_.end()) return kNobody;
  if (wire::level_of(call) == wire::Level::kPosix) return known->second;
  const auto inside = inside_of_.find(recording);
  return inside == inside_of_.end() ? known->second : inside->second;
}

void SessionFollower::take_block(size_t block, const Visit& visit) {
  const uint32_t index = packed_->event_blocks()[block].header.process;
  const trace::ProcessEntry& entry = packed_->tables().processes[index];
  const size_t outer = owner_of(entry.recording, wire::Call::kRead);
  const size_t inner = owner_of(entry.recording, wire::Call::kRegion);
  if (outer == kNobody || (!tails_[outer].wants_packed && !tails_[inner].wants_packed)) return;
  EventColumns columns;
  if (const Status status = packed_->read(block, columns); !status.ok()) {
    return note(status.error().message());
  }
  Batch outer_batch(outer, visit);
  Batch inner_batch(inner, visit);
  for (size_t i = 0; i < columns.size_events(); ++i) {
    const bool is_outer = wire::level_of(columns.call[i]) == wire::Level::kPosix;
    Tail& tail = tails_[is_outer ? outer : inner];
    const uint32_t tid = packed_->tables().threads[static_cast<size_t>(columns.thread[i])].tid;
    if (!tail.wants_packed || columns.begin_ns[i] + columns.duration_ns[i] <= tail.attached_ns) {
      continue;
    }
    const auto before = tail.delivered.find({entry.process.pid, tid});
    if (before != tail.delivered.end() && before->second > 0) {
      --before->second;
      continue;
    }
    Batch& batch = is_outer ? outer_batch : inner_batch;
    copy_event(columns, i, tid, batch.columns());
    batch.flush_if_full();
  }
}

// The session is gone. What is not in the packed trace was removed by someone else.
void SessionFollower::end_removed() {
  size_t unread = 0;
  for (size_t i = 0; i < tails_.size(); ++i) {
    if (!tails_[i].is_complete) ++unread;
    tails_[i].is_complete = true;
    processes_[i].life = Life::kEnded;
  }
  if (unread == 0) return;
  note(
      fmt::format("{}: was removed, but {} does not contain the last events of {} of its "
                  "processes; they are not counted",
                  session_.path().string(), packed_path_.string(), unread));
}

// ---- state --------------------------------------------------------------------------------------

bool SessionFollower::has_ended() const {
  if (is_removed_) return true;
  const bool runs = std::any_of(processes_.begin(), processes_.end(),
                                [](const auto& process) { return process.life != Life::kEnded; });
  if (runs) return false;
  return launcher_ == Life::kEnded || (launcher_ == Life::kElsewhere && !processes_.empty());
}

uint64_t SessionFollower::now_ns() const {
  if (session_.is_of_this_boot()) {
    return wire::monotonic_clock_ns() - entry_.clock.first.monotonic_ns;
  }
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t wall_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  return static_cast<uint64_t>(std::max<int64_t>(0, wall_ns - entry_.clock.first.wall_ns));
}

std::string SessionFollower::name(NameIndex name) {
  const auto number = static_cast<uint32_t>(name);
  if (number == 0) return "";
  if ((number & kPackedName) != 0) {
    const size_t index = number & ~kPackedName;
    return packed_ && index < packed_->tables().names.size() ? packed_->tables().names[index] : "";
  }
  if (!names_ || !names_->look_again().ok()) return "";
  auto text = trace::read_name(*names_, wire::NameId{number});
  return text.ok() ? *std::move(text) : "";
}

std::vector<std::string> SessionFollower::take_problems() { return std::exchange(problems_, {}); }

}  // namespace millrace::watch
