#include "watch/job_watch.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>

#include "base/system/clock.h"

namespace millrace::watch {

namespace fs = std::filesystem;
using trace::Life;
using trace::NameIndex;

namespace {

constexpr size_t kFilesShown = 5;
constexpr size_t kWorkersShown = 8;
constexpr int kPackedLooks = 2;  // looks in which a new packed trace must become readable

// Fails if the directory contains files but no trace.
Status check_directory(const fs::path& path) {
  std::error_code error;
  bool has_files = false;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".mrt" || trace::SessionDirectory::is_one(entry.path())) {
      return {};
    }
    has_files = true;
  }
  if (error) return fail_os(error.value(), "cannot be read").within(path.string());
  if (!has_files || trace::SessionDirectory::is_one(path)) return {};
  return fail(Errc::kNotFound,
              "{}: contains no trace: neither *.mrt files nor recordings. Pass the directory "
              "that `millrace trace -o` records into",
              path.string());
}

// True if a launcher has created the session's file but not written its page yet, or was killed in
// between. Either way, nothing was recorded in it.
bool is_being_created(const fs::path& session) {
  std::error_code error;
  if (fs::file_size(session / "session", error) != 0 || error) return false;
  const auto entries = fs::directory_iterator(session, error);
  return std::distance(begin(entries), end(entries)) == 1;
}

double share_of(uint64_t part_ns, uint64_t window_ns) {
  if (window_ns == 0) return 0;
  return std::min(1.0, static_cast<double>(part_ns) / static_cast<double>(window_ns));
}

struct MeanWaiting {
  double sum = 0;
  uint64_t count = 0;
  void add(double share) {
    sum += share;
    ++count;
  }
  double mean() const { return sum / static_cast<double>(count); }
};

using Member = ProcessMember;

bool is_program(const Member& member) {
  return member.process->page.origin == wire::ProcessOrigin::kProgram;
}

// Returns the process that represents a rank: one that waits for batches, else one that trains,
// else the program with the most calls. Loader workers are forks of it.
const Member& main_member(const std::vector<Member>& members) {
  const auto weight = [](const Member& member) {
    const bool runs = member.process->life != Life::kEnded;
    return std::tuple(member.activity->has_batch_wait(), is_program(member), runs,
                      member.activity->calls_total());
  };
  return *std::max_element(members.begin(), members.end(),
                           [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
}

void describe_waiting(const std::vector<Member>& members, Worker& worker) {
  const Member& main = main_member(members);
  const ProcessActivity& activity = *main.activity;
  const uint64_t window_ns = main.window_ns;
  if (activity.has_batch_wait()) {
    worker.waiting_by = WaitingBy::kRegions;
    worker.waiting_share = share_of(activity.batch_wait_ns(), window_ns);
  } else if (activity.has_fetch() && is_program(main)) {
    worker.waiting_by = WaitingBy::kRegions;
    worker.waiting_share = share_of(activity.fetch_ns(), window_ns);
  } else {
    worker.waiting_by = WaitingBy::kIo;
    worker.waiting_share = share_of(activity.in_io_ns(), window_ns);
  }
}

Worker describe_worker(const std::vector<Member>& members) {
  Worker worker;
  std::set<uint32_t> running;
  uint64_t latest_ns = 0;
  for (const Member& member : members) {
    worker.rank = std::max(worker.rank, member.process->page.rank);
    worker.operations.add(member.activity->operations());
    worker.busy_ns += member.activity->busy_ns();
    if (member.process->life != Life::kEnded) running.insert(member.process->page.pid);
    const ProcessActivity::Progress& progress = member.activity->progress();
    if (!(progress.has_epoch || progress.has_step) || progress.at_ns < latest_ns) continue;
    latest_ns = progress.at_ns;
    worker.has_epoch = progress.has_epoch;
    worker.has_step = progress.has_step;
    worker.epoch = progress.epoch;
    worker.step = progress.step;
  }
  worker.pid = main_member(members).process->page.pid;
  worker.processes_running = static_cast<uint32_t>(running.size());
  describe_waiting(members, worker);
  return worker;
}

// Mean number of calls in progress.
double concurrency_of(const std::vector<Member>& members) {
  double sum = 0;
  for (const Member& member : members) {
    if (member.window_ns == 0) continue;
    sum += static_cast<double>(member.activity->busy_ns()) / static_cast<double>(member.window_ns);
  }
  return sum;
}

// The share of time that a job without regions spends in I/O: the mean over its ranks. If there are
// none, the share of the program with the most calls, which is more likely to be the one that
// trains than the shell around it.
class IoShare {
 public:
  void add(const Worker& worker, const Member& main) {
    if (worker.rank >= 0) {
      ranks_.add(worker.waiting_share);
    } else if (is_program(main) && main.activity->calls_total() > calls_) {
      calls_ = main.activity->calls_total();
      share_ = worker.waiting_share;
    }
  }
  bool is_known() const { return ranks_.count > 0 || calls_ > 0; }
  double share() const { return ranks_.count > 0 ? ranks_.mean() : share_; }

 private:
  MeanWaiting ranks_;
  uint64_t calls_ = 0;
  double share_ = 0;
};

// Keeps the `count` items with the greatest keys, in descending order.
template <typename Item, typename Key>
void keep_greatest(std::vector<Item>& items, size_t count, Key key) {
  const auto greater = [&](const Item& a, const Item& b) { return key(a) > key(b); };
  const size_t kept = std::min(count, items.size());
  std::partial_sort(items.begin(), items.begin() + static_cast<ptrdiff_t>(kept), items.end(),
                    greater);
  items.resize(kept);
}

}  // namespace

Result<JobWatch> JobWatch::open(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status)) {
    if (!fs::is_directory(status)) {
      return fail(Errc::kInvalidArgument,
                  "{}: not a directory; pass the directory that `millrace trace -o` records into",
                  path.string());
    }
    RETURN_IF_ERROR(check_directory(path));
  }
  return JobWatch(path);
}

void JobWatch::find_sessions() {
  std::vector<fs::path> candidates;
  std::error_code error;
  if (trace::SessionDirectory::is_one(path_)) {
    candidates.push_back(path_.has_filename() ? path_ : path_.parent_path());
  } else {
    for (const auto& entry : fs::directory_iterator(path_, error)) {
      if (entry.path().extension() == ".mrt") {
        packed_files_.try_emplace(entry.path().string(), has_looked_ ? kPackedLooks : 0);
      }
      if (trace::SessionDirectory::is_one(entry.path())) candidates.push_back(entry.path());
    }
  }
  for (const fs::path& candidate : candidates) {
    if (sessions_.contains(candidate.string())) continue;
    const auto start =
        has_looked_ ? SessionFollower::Start::kBeginning : SessionFollower::Start::kNow;
    auto follower = SessionFollower::open(candidate, start);
    if (follower.ok()) {
      follow(*std::move(follower));
    } else if (!is_being_created(candidate) && ++refusals_[candidate.string()] == 2) {
      // Not the first time: the launcher may still have been creating it.
      found_problems_.push_back(follower.error().message());
    }
  }
  find_packed();
}

void JobWatch::follow(SessionFollower follower) {
  std::string directory = follower.directory().string();
  sessions_.emplace(std::move(directory),
                    std::make_unique<Session>(Session{.follower = std::move(follower)}));
}

// A packed trace belongs to a session that is followed, or to one that appeared and was removed
// between two looks.
void JobWatch::find_packed() {
  for (auto& [file, looks_left] : packed_files_) {
    if (looks_left == 0) continue;
    --looks_left;
    if (settle_packed(file, looks_left == 0)) looks_left = 0;
  }
}

// Returns false if the next look will know more, because the packed trace or its session has only
// just been created.
bool JobWatch::settle_packed(const fs::path& file, bool is_last_try) {
  fs::path usual = file;
  usual.replace_extension();
  if (sessions_.contains(usual.string())) return true;
  auto follower = SessionFollower::open_packed(file);
  if (!follower.ok()) {
    if (is_last_try) found_problems_.push_back(follower.error().message());
    return false;
  }
  if (sessions_.contains(follower->directory().string())) return true;
  if (trace::SessionDirectory::is_one(follower->directory())) return false;
  follow(*std::move(follower));
  return true;
}

// Times are clipped to the session's own window and divided by its length. That window differs
// slightly from the job's, because sessions are read one after another. With the job's window, one
// thread could appear to be in more than one call at a time.
void JobWatch::begin_window(Session& session) const {
  const uint64_t clock_ns = wire::monotonic_clock_ns();
  const uint64_t end_ns = session.follower.now_ns();
  if (session.looked_at_ns != 0) {
    session.window_ns = clock_ns - session.looked_at_ns;
    session.window = {end_ns - std::min(end_ns, session.window_ns), end_ns};
  } else {
    // From its beginning, which may be long before it became visible.
    session.window_ns = has_looked_ ? std::max(end_ns, clock_ns - looked_at_ns_) : 0;
    session.window = {0, end_ns};
  }
  session.looked_at_ns = clock_ns;
}

void JobWatch::read(Session& session) {
  begin_window(session);
  session.files.clear();
  for (ProcessActivity& activity : session.activities) activity.begin_window();
  const auto& processes = session.follower.processes();
  // Set when the first events arrive: look() finds the processes.
  std::optional<CountedLevels> levels;
  const auto find_levels = [&] {
    const bool has_outside = std::any_of(processes.begin(), processes.end(), [](const auto& each) {
      return each.page.recorded_from == wire::RecordedFrom::kOutside;
    });
    return counted_levels(session.follower.page().levels, has_outside);
  };
  const auto role_of = [&](NameIndex name) {
    const auto [known, is_new] = session.roles.try_emplace(static_cast<uint32_t>(name));
    if (is_new) {
      const std::string text = session.follower.name(name);
      known->second = text == "batch_wait" ? Role::kBatchWait
                      : text == "fetch"    ? Role::kFetch
                                           : Role::kNone;
    }
    return known->second;
  };
  session.follower.look([&](size_t process, const trace::EventColumns& events) {
    if (session.activities.size() <= process) session.activities.resize(process + 1);
    if (!levels) levels = find_levels();
    session.activities[process].add(events, *levels, session.window, role_of, session.files);
  });
  session.activities.resize(processes.size());
  for (std::string& problem : session.follower.take_problems()) {
    found_problems_.push_back(std::move(problem));
  }
}

Snapshot JobWatch::look() {
  Snapshot snapshot;
  const uint64_t now_ns = wire::monotonic_clock_ns();
  find_sessions();
  for (auto& [directory, session] : sessions_) {
    if (session->is_past) continue;
    read(*session);
    if (!has_looked_ && session->follower.has_ended()) session->is_past = true;
  }
  snapshot.window_ns = has_looked_ ? now_ns - looked_at_ns_ : 0;
  looked_at_ns_ = now_ns;
  has_looked_ = true;
  describe_sessions(snapshot);
  describe_workers(snapshot);
  describe_files(snapshot);
  total_.add(snapshot.window);
  snapshot.total = total_;
  for (std::string& problem : found_problems_) {
    if (reported_problems_.insert(problem).second) snapshot.problems.push_back(std::move(problem));
  }
  found_problems_.clear();
  return snapshot;
}

void JobWatch::describe_sessions(Snapshot& snapshot) {
  bool has_running = false;
  std::set<std::string> hosts;
  std::set<int32_t> ranks;
  for (const auto& [directory, session] : sessions_) {
    if (session->is_past) continue;
    const SessionFollower& follower = session->follower;
    has_running = has_running || !follower.has_ended();
    snapshot.elapsed_ns = std::max(snapshot.elapsed_ns, follower.now_ns());
    snapshot.lost_events += follower.page().lost.events;
    snapshot.lost_processes += follower.page().lost_processes;
    std::set<uint32_t> pids;
    for (const FollowedProcess& process : follower.processes()) {
      if (!process.is_known()) continue;
      snapshot.lost_events += process.page.lost.events;
      snapshot.world_size = std::max(snapshot.world_size, process.page.world_size);
      if (process.life == Life::kEnded) continue;
      pids.insert(process.page.pid);
      hosts.insert(follower.entry().session.host);
      if (process.page.rank >= 0) ranks.insert(process.page.rank);
    }
    snapshot.processes += pids.size();
  }
  snapshot.hosts = hosts.size();
  snapshot.ranks = ranks.size();
  // A packed trace whose session was not seen yet belongs to a job that is running or starting.
  const bool has_unsettled = std::any_of(packed_files_.begin(), packed_files_.end(),
                                         [](const auto& file) { return file.second > 0; });
  if (has_running || (has_unsettled && !sessions_.empty())) {
    snapshot.state = JobState::kRunning;
  } else {
    const bool had_any = !sessions_.empty() || !packed_files_.empty();
    snapshot.state = had_any && !has_unsettled ? JobState::kEnded : JobState::kWaiting;
  }
}

// Groups processes by rank, across hosts. Each process without a rank is a group of its own.
JobWatch::Groups JobWatch::group_processes() {
  Groups groups;
  for (auto& [directory, session] : sessions_) {
    if (session->is_past) continue;
    const auto& processes = session->follower.processes();
    for (size_t i = 0; i < processes.size(); ++i) {
      if (!processes[i].is_known()) continue;
      const ProcessActivity& activity = session->activities[i];
      const bool is_idle = activity.operations().all().count == 0 && activity.batch_wait_ns() == 0;
      if (is_idle && processes[i].life == Life::kEnded) continue;
      const int32_t rank = processes[i].page.rank;
      Group& group =
          rank >= 0 ? groups[{rank, "", 0}] : groups[{-1, directory, processes[i].page.pid}];
      group.session = session.get();
      group.members.push_back({&processes[i], &activity, session->window_ns});
    }
  }
  return groups;
}

void JobWatch::describe_workers(Snapshot& snapshot) {
  const Groups groups = group_processes();
  MeanWaiting by_regions;
  IoShare io;
  std::vector<std::pair<Worker, const Group*>> workers;
  for (const auto& [key, group] : groups) {
    Worker worker = describe_worker(group.members);
    snapshot.window.add(worker.operations);
    snapshot.concurrency += concurrency_of(group.members);
    if (worker.waiting_by == WaitingBy::kRegions) {
      by_regions.add(worker.waiting_share);
    } else {
      io.add(worker, main_member(group.members));
    }
    workers.emplace_back(std::move(worker), &group);
  }
  if (by_regions.count > 0) {
    snapshot.waiting_by = WaitingBy::kRegions;
    snapshot.waiting_share = by_regions.mean();
  } else if (io.is_known()) {
    snapshot.waiting_by = WaitingBy::kIo;
    snapshot.waiting_share = io.share();
  }
  const size_t all = workers.size();
  keep_greatest(workers, kWorkersShown, [](const auto& each) {
    return std::tuple(each.first.busy_ns, each.first.operations.all().count, -each.first.rank);
  });
  snapshot.workers_more = all - workers.size();
  for (auto& [worker, group] : workers) {
    const Member& main = main_member(group->members);
    worker.host = group->session->follower.entry().session.host;
    worker.command = group->session->follower.name(
        NameIndex{static_cast<uint32_t>(main.process->page.command_line)});
    snapshot.workers.push_back(std::move(worker));
  }
}

void JobWatch::describe_files(Snapshot& snapshot) {
  const auto weight = [](const FileUse& file) {
    return std::tuple(file.read_bytes + file.written_bytes, file.busy_ns, file.count);
  };
  std::map<std::string, FileUse> by_path;
  for (auto& [directory, session] : sessions_) {
    if (session->is_past) continue;
    std::vector<std::pair<uint32_t, FileActivity>> busiest(session->files.begin(),
                                                           session->files.end());
    // Twice as many: a file may have one name in the recording and another in the packed trace.
    keep_greatest(busiest, 2 * kFilesShown, [&](const auto& each) {
      const FileActivity& file = each.second;
      return std::tuple(file.read_bytes + file.written_bytes, file.busy_ns, file.count);
    });
    for (const auto& [name, file] : busiest) {
      FileUse& use = by_path[session->follower.name(NameIndex{name})];
      use.count += file.count;
      use.read_bytes += file.read_bytes;
      use.written_bytes += file.written_bytes;
      use.busy_ns += file.busy_ns;
    }
  }
  for (auto& [path, use] : by_path) {
    use.path = path;
    if (!path.empty()) snapshot.files.push_back(use);
  }
  keep_greatest(snapshot.files, kFilesShown, weight);
}

}  // namespace millrace::watch
