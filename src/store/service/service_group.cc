#include "store/service/service_group.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/system/subprocess.h"
#include "store/peers/peer_table.h"
#include "store/peers/peers.h"

namespace millrace::store {
namespace {

constexpr char kGroupStarted = 'S';
constexpr char kGroupFailed = 'F';
// How long the launcher has to end after its services: if all of them are ending, which for one
// with millions of files in its folder takes long; and if one of them is lost, and its host may be,
// too.
constexpr std::chrono::minutes kEndingPatience{10};
constexpr std::chrono::seconds kLauncherPatience{20};

struct Launched {
  pid_t pid = 0;
  File output;
};

[[noreturn]] void become_launcher(const ServiceGroupOptions& options, int output) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  std::vector<char*> words;
  for (const std::string& word : options.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::vector<char*> entries;
  for (const std::string& one : options.environment) {
    entries.push_back(const_cast<char*>(one.c_str()));
  }
  entries.push_back(nullptr);
  ::execvpe(words[0], words.data(), entries.data());
  ::_exit(127);
}

Result<Launched> launch_ranks(const ServiceGroupOptions& options) {
  ASSIGN_OR_RETURN(ProcessPipe pipe, make_pipe());
  Launched launched{.pid = ::fork(), .output = std::move(pipe.reading)};
  if (launched.pid < 0) return fail_os(errno, "cannot start a process");
  if (launched.pid == 0) become_launcher(options, pipe.writing.fd());
  return launched;
}

// The lines between the two that mark the table; empty if they are not there.
std::string table_in(std::string_view text) {
  const size_t begin = text.find(kGroupTableBegin);
  const size_t end = text.find(kGroupTableEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return {};
  const size_t first = begin + std::strlen(kGroupTableBegin);
  return std::string(text.substr(first, end - first));
}

// Asks all services to end. Returns whether they do; then their ranks end, too.
bool end_services(const std::string& table) {
  auto places = read_table(table);
  if (!places.ok()) return false;
  PeersOptions options;
  options.table = *std::move(places);
  const Rank own = options.own;
  Peers peers(std::move(options));
  const bool are_others_ending = peers.tell_all(wire::PeerKind::kEnd, {}).empty();
  return peers.ask(own, wire::PeerKind::kEnd, {}).ok() && are_others_ending;
}

// The services end first, and clean up. SIGTERM to the launcher is only for what remains: mpirun
// passes it on to its ranks, but srun kills all processes of its step at once, and the files of
// the services would stay in the memory of the nodes.
void end_group(const Launched& launched, const File& launcher, const std::string& table) {
  if (end_services(table) ? is_readable_within(launcher.fd(), kEndingPatience)
                          : is_readable_within(launcher.fd(), kLauncherPatience)) {
    return;
  }
  ::kill(launched.pid, SIGTERM);
  if (!is_readable_within(launcher.fd(), kLauncherPatience)) ::kill(launched.pid, SIGKILL);
}

// Returns when the launcher ends, or must end.
void keep_group(const Launched& launched, const File& signals, const File& watched,
                const std::string& table) {
  const File launcher = watch_process(launched.pid);
  pollfd events[] = {{.fd = launcher.fd(), .events = POLLIN, .revents = 0},
                     {.fd = signals.fd(), .events = POLLIN, .revents = 0},
                     {.fd = watched.fd(), .events = POLLIN, .revents = 0}};
  while (::poll(events, std::size(events), -1) < 0 && errno == EINTR) {
  }
  if (events[0].revents == 0) end_group(launched, launcher, table);
  int status = 0;
  ::waitpid(launched.pid, &status, 0);
}

int run_keeper(const ServiceGroupOptions& options, File reports) {
  ::setsid();
  close_descriptors_except({reports.fd(), options.watched.fd()});
  const File signals = ending_signals();
  const auto launched = launch_ranks(options);
  if (!launched.ok()) {
    tell(reports, kGroupFailed, launched.error().message());
    return 1;
  }
  const std::string printed = read_until(launched->output, kGroupReady);
  if (printed.find(kGroupReady) == std::string::npos) {  // the launcher has closed its output
    int status = 0;
    ::waitpid(launched->pid, &status, 0);
    tell(reports, kGroupFailed,
         fmt::format("the services could not be started: {} ended with {}", options.command[0],
                     WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                       : fmt::format("signal {}", WTERMSIG(status))));
    return 1;
  }
  const std::string table = table_in(printed);
  tell(reports, kGroupStarted, table);
  static_cast<void>(reports.close());
  ::close(STDOUT_FILENO);  // whoever reads the output of `up` sees its end
  keep_group(*launched, signals, options.watched, table);
  return 0;
}

}  // namespace

Result<StartedService> start_service_group(ServiceGroupOptions options) {
  ASSIGN_OR_RETURN(ProcessPipe pipe, make_pipe());
  const pid_t keeper = ::fork();
  if (keeper < 0) return fail_os(errno, "cannot start a process");
  if (keeper == 0) {
    static_cast<void>(pipe.reading.close());
    ::_exit(run_keeper(options, std::move(pipe.writing)));
  }
  static_cast<void>(pipe.writing.close());
  const std::string report = read_until(pipe.reading);
  if (report.starts_with(kGroupStarted)) {
    return StartedService{
        .pid = keeper, .node = std::move(options.node), .table = report.substr(1)};
  }
  ::waitpid(keeper, nullptr, 0);
  return fail(Errc::kIo, "{}",
              report.empty() ? "the services could not be started" : report.substr(1));
}

}  // namespace millrace::store
