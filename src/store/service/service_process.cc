#include "store/service/service_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/concurrency/mutex.h"
#include "base/system/subprocess.h"
#include "base/text/phrases.h"
#include "comm/lifeline/message.h"
#include "store/service/lost_pages.h"

namespace millrace::store {
namespace {

// The child's reports: one letter, then the folder of the node, what went wrong, or its place.
constexpr char kStarted = 'S';
constexpr char kFailed = 'F';
constexpr char kPlace = 'P';

constexpr std::chrono::seconds kUseInterval{2};
constexpr std::chrono::seconds kRankPatience{5};

// Lines of the service. Until there is a place for them, they are kept.
class ServiceLog {
 public:
  // `about` is at the start of each line, such as a host; may be empty.
  ServiceLog(bool to_error, std::string about) : about_(std::move(about)) {
    if (to_error) files_.emplace_back(::dup(STDERR_FILENO));
  }

  void write(const std::string& line) {
    const MutexLock lock(mutex_);
    const std::string about = about_.empty() ? "" : about_ + ": ";
    pending_ += fmt::format("millrace: store: {}{}\n", about, line);
    flush();
  }

  void open(const std::filesystem::path& path) {
    auto opened = File::open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    const MutexLock lock(mutex_);
    if (opened.ok()) files_.push_back(*std::move(opened));
    flush();
  }

 private:
  // One write a line, so that lines of several processes do not mix.
  void flush() REQUIRES(mutex_) {
    if (files_.empty() || pending_.empty()) return;
    for (const File& file : files_) {
      static_cast<void>(!::write(file.fd(), pending_.data(), pending_.size()));
    }
    pending_.clear();
  }

  const std::string about_;
  Mutex mutex_;
  std::vector<File> files_ GUARDED_BY(mutex_);
  std::string pending_ GUARDED_BY(mutex_);
};

void redirect(int fd, const char* path, int flags) {
  const int opened = ::open(path, flags | O_CLOEXEC);
  if (opened < 0) return;
  ::dup2(opened, fd);
  ::close(opened);
}

// Each client takes a descriptor, and a node may have hundreds of processes.
void allow_many_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Whether another process of this user has the state of the node mapped, as programs do.
bool is_in_use(const std::filesystem::path& node) {
  const std::string wanted = (node / wire::kStoreStateFile).string();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    const bool is_other = name.find_first_not_of("0123456789") == std::string::npos &&
                          name != std::to_string(::getpid());
    if (!is_other) continue;
    const auto maps = read_file((entry.path() / "maps").string());
    if (maps.ok() && maps->find(wanted) != std::string::npos) return true;
  }
  return false;
}

struct EndCauses {
  const File& signals;
  const File& watched;  // may be closed
  const File& ended;    // an eventfd: a peer says so
};

// Returns whether it must end now; otherwise it may stay if it is used.
bool wait_for_end(const EndCauses& causes, std::chrono::milliseconds patience) {
  pollfd ends[] = {{.fd = causes.signals.fd(), .events = POLLIN, .revents = 0},
                   {.fd = causes.ended.fd(), .events = POLLIN, .revents = 0},
                   {.fd = causes.watched.fd(), .events = POLLIN, .revents = 0}};  // -1 is ignored
  while (::poll(ends, std::size(ends), static_cast<int>(patience.count())) < 0 && errno == EINTR) {
  }
  if (ends[1].revents != 0) return true;
  if (ends[0].revents == 0) return false;
  signalfd_siginfo signal{};
  const ssize_t size = ::read(causes.signals.fd(), &signal, sizeof(signal));
  return size != sizeof(signal) || signal.ssi_signo != SIGHUP;
}

void stay_until_end(const EndCauses& causes, const std::filesystem::path& node, bool is_rank) {
  if (wait_for_end(causes, std::chrono::milliseconds(-1)) || !is_rank) return;
  while (is_in_use(node)) {
    if (wait_for_end({.signals = causes.signals, .watched = File(), .ended = causes.ended},
                     kUseInterval)) {
      return;
    }
  }
}

// The ends of pipes that the child uses.
struct ChildPipes {
  File reports;
  File table;  // of a rank; otherwise closed
  File lines;  // the same
};

// Waits for the table of all services. If the parent gives up, there is none.
Result<PeersOptions> join_peers(const ChildPipes& pipes) {
  PeersOptions peers;
  ASSIGN_OR_RETURN(peers.listener, listen_for_peers());
  tell(pipes.reports, kPlace, place_text(place_of(peers.listener)) + "\n");
  const std::string text = read_until(pipes.table);
  const size_t line_end = std::min(text.find('\n'), text.size());
  if (text.empty()) return fail(Errc::kCancelled, "the other services could not be found");
  peers.own = static_cast<Rank>(std::strtoul(text.c_str(), nullptr, 10));
  ASSIGN_OR_RETURN(peers.table, read_table(std::string_view(text).substr(line_end + 1)));
  return peers;
}

Result<std::unique_ptr<Service>> start_in_child(ServiceOptions options, const ChildPipes& pipes) {
  if (!pipes.table.is_open()) return Service::start(std::move(options));
  ASSIGN_OR_RETURN(PeersOptions peers, join_peers(pipes));
  options.job = peers.table.job;
  return Service::start(std::move(options), std::move(peers));
}

void let_go_of_output(const ServiceProcessOptions& options, const ChildPipes& pipes) {
  redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
  redirect(STDOUT_FILENO, "/dev/null", O_WRONLY);
  // Nobody may read what the service says: not a reason to end, and to leave files unsaved.
  ::signal(SIGPIPE, SIG_IGN);
  if (options.is_background) redirect(STDERR_FILENO, "/dev/null", O_WRONLY);
  if (!pipes.lines.is_open()) return;
  // Whoever started the rank waits until its output is closed; so the service has none of it.
  ::dup2(pipes.lines.fd(), STDERR_FILENO);
}

int run_child(ServiceProcessOptions options, ChildPipes pipes) {
  ::setsid();
  close_descriptors_except(
      {pipes.reports.fd(), pipes.table.fd(), pipes.lines.fd(), options.watched.fd()});
  const File signals = ending_signals();
  allow_many_descriptors();
  replace_lost_pages();
  const bool is_rank = pipes.table.is_open();
  let_go_of_output(options, pipes);
  ServiceLog log(!options.is_background, is_rank ? comm::own_name(comm::kFirstRank).host : "");
  options.service.log = [&](const std::string& line) { log.write(line); };
  const File ended(::eventfd(0, EFD_CLOEXEC));
  options.service.on_end = [&] { ::eventfd_write(ended.fd(), 1); };
  auto service = start_in_child(std::move(options.service), pipes);
  if (!service.ok()) {
    tell(pipes.reports, kFailed, service.error().message());
    return 1;
  }
  const std::filesystem::path node = (*service)->node();
  if (options.is_background || is_rank) log.open(node / kLogFile);
  if (!tell(pipes.reports, kStarted, node.string())) return 1;  // nobody knows of us
  static_cast<void>(pipes.reports.close());
  stay_until_end({.signals = signals, .watched = options.watched, .ended = ended}, node, is_rank);
  if (is_rank) {
    for (const auto& line : loss_lines((*service)->counters(), "the origin")) log.write(line);
  }
  return (*service)->finish() ? 0 : kExitNotSaved;
}

// REQUIRES: this process has one thread
Result<pid_t> fork_service(ServiceProcessOptions options, ChildPipes pipes,
                           const std::vector<File*>& parents_ends) {
  const pid_t child = ::fork();
  if (child < 0) return fail_os(errno, "cannot start a process");
  if (child != 0) return child;
  for (File* const end : parents_ends) static_cast<void>(end->close());
  ::_exit(run_child(std::move(options), std::move(pipes)));
}

Result<std::filesystem::path> node_in(const std::string& report, pid_t child) {
  if (report.starts_with(kStarted)) return std::filesystem::path(report.substr(1));
  int status = 0;
  ::waitpid(child, &status, 0);
  if (report.starts_with(kFailed)) return fail(Errc::kIo, "{}", report.substr(1));
  return fail(Errc::kIo, "the store's service ended before it was ready (wait status {})", status);
}

// The report that a rank's service starts with.
Result<std::string> read_own_place(const File& reports, pid_t child) {
  std::string line;
  for (char c = 0; ::read(reports.fd(), &c, 1) == 1 && c != '\n';) line += c;
  if (line.starts_with(kPlace)) return line.substr(1);
  ASSIGN_OR_RETURN(const auto node, node_in(line, child));
  return fail(Errc::kIo, "{}: the store's service has no place", node.string());
}

void pass_on(const File& lines) {
  char buffer[4096];
  const ssize_t size = ::read(lines.fd(), buffer, sizeof(buffer));
  if (size > 0) static_cast<void>(!::write(STDERR_FILENO, buffer, static_cast<size_t>(size)));
}

// Whether the services of all other nodes have ended.
bool have_ended(const Peers& others) {
  for (uint32_t i = 0; i < others.size(); ++i) {
    const auto rank = static_cast<Rank>(i);
    if (rank != others.own() && !others.has_ended(rank)) return false;
  }
  return others.size() > 1;
}

// The others of this job; nothing if they cannot be found.
std::unique_ptr<Peers> find_others(const RankService& service) {
  PeersOptions options;
  options.own = service.own;
  options.table = service.table;
  return options.table.places.empty() ? nullptr : std::make_unique<Peers>(std::move(options));
}

// The service was killed. Programs go on, and what they buffer is saved by this process. `store
// down` cannot tell it that the job is over; it sees that the other services have ended and that no
// program of this node uses the store.
void save_until_end(const RankService& service, const File& signals) {
  const auto log = [](const std::string& line) {
    fmt::print(stderr, "millrace: store: {}: {}\n", comm::own_name(comm::kFirstRank).host, line);
  };
  auto drain = BufferDrain::start({.directory = buffer_of(service.node), .log = log});
  if (!drain.ok()) return;  // nothing is buffered
  const auto others = find_others(service);
  const auto interval = std::chrono::milliseconds(kUseInterval).count();
  pollfd end{.fd = signals.fd(), .events = POLLIN, .revents = 0};
  for (int ready = 0; ready <= 0;) {
    ready = ::poll(&end, 1, others != nullptr ? static_cast<int>(interval) : -1);
    if (ready == 0 && have_ended(*others) && !is_in_use(service.node)) break;
  }
  for (const KeptFile& file : (*drain)->finish()) log(kept_text(file));
}

}  // namespace

Result<StartedService> start_service_process(ServiceProcessOptions options) {
  ASSIGN_OR_RETURN(auto reports, make_pipe());
  ChildPipes pipes;
  pipes.reports = std::move(reports.writing);
  ASSIGN_OR_RETURN(const pid_t child,
                   fork_service(std::move(options), std::move(pipes), {&reports.reading}));
  const std::string report = read_until(reports.reading);
  ASSIGN_OR_RETURN(std::filesystem::path node, node_in(report, child));
  return StartedService{.pid = child, .node = std::move(node)};
}

Result<RankService> start_rank_service(ServiceProcessOptions options,
                                       const ExchangePlaces& exchange) {
  ASSIGN_OR_RETURN(auto reports, make_pipe());
  ASSIGN_OR_RETURN(auto table, make_pipe());
  ASSIGN_OR_RETURN(auto lines, make_pipe());
  options.watched = watch_process(::getpid());
  ChildPipes pipes{.reports = std::move(reports.writing),
                   .table = std::move(table.reading),
                   .lines = std::move(lines.writing)};
  ASSIGN_OR_RETURN(const pid_t child,
                   fork_service(std::move(options), std::move(pipes),
                                {&reports.reading, &table.writing, &lines.reading}));
  const auto place = read_own_place(reports.reading, child);
  // The others wait for this rank, even if it has failed.
  const auto member = exchange(place.ok() ? *place : std::string());
  if (!place.ok()) return place.error();
  if (!member.ok()) return member.error();
  const std::string text =
      fmt::format("{}\n{}", comm::index_of(member->own), table_text(member->table));
  static_cast<void>(!::write(table.writing.fd(), text.data(), text.size()));
  RETURN_IF_ERROR(table.writing.close());
  ASSIGN_OR_RETURN(std::filesystem::path node, node_in(read_until(reports.reading), child));
  return RankService{.pid = child,
                     .node = std::move(node),
                     .lines = std::move(lines.reading),
                     .table = member->table,
                     .own = member->own};
}

int attend_rank_service(const RankService& service) {
  const File signals = ending_signals();
  std::chrono::milliseconds patience{-1};
  for (;;) {
    pollfd events[] = {{.fd = service.lines.fd(), .events = POLLIN, .revents = 0},
                       {.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    const int ready = ::poll(events, 2, static_cast<int>(patience.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return 0;  // programs use it
    if ((events[0].revents & POLLIN) != 0) {
      pass_on(service.lines);
    } else if (events[0].revents != 0) {
      break;
    }
    if (events[1].revents == 0) continue;
    signalfd_siginfo signal{};
    static_cast<void>(!::read(signals.fd(), &signal, sizeof(signal)));
    ::kill(service.pid, SIGHUP);
    patience = kRankPatience;
  }
  int status = 0;
  ::waitpid(service.pid, &status, 0);
  if (WIFSIGNALED(status)) save_until_end(service, signals);
  return status;
}

std::vector<std::string> loss_lines(const wire::StoreCounters& counters, std::string_view origin) {
  std::vector<std::string> lines;
  if (counters.fallbacks != 0) {
    lines.push_back(fmt::format("{} read from {} instead of the store",
                                counted(counters.fallbacks, "file was", "files were"), origin));
  }
  if (counters.errors != 0) {
    lines.push_back(fmt::format("{} while files were made or opened",
                                counted(counters.errors, "error", "errors")));
  }
  return lines;
}

Result<ProcessPipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_os(errno, "cannot create a pipe");
  return ProcessPipe{File(ends[0]), File(ends[1])};
}

std::string read_until(const File& pipe, std::string_view last) {
  std::string text;
  char buffer[4096];
  while (last.empty() || text.find(last) == std::string::npos) {
    const ssize_t size = ::read(pipe.fd(), buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

bool tell(const File& pipe, char kind, const std::string& text) {
  const std::string message = kind + text;
  return ::write(pipe.fd(), message.data(), message.size()) == static_cast<ssize_t>(message.size());
}

File ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return File(::signalfd(-1, &signals, SFD_CLOEXEC));
}

File watch_process(pid_t pid) { return File(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

}  // namespace millrace::store
