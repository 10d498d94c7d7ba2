#include "store/service_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace millrace::store {
namespace {

// The child's report: one letter, then the folder of the node or what went wrong.
constexpr char kStarted = 'S';
constexpr char kFailed = 'F';

// Lines of the service. Until the folder is known, they are kept.
class ServiceLog {
 public:
  explicit ServiceLog(bool is_background) {
    if (!is_background) file_ = File(::dup(STDERR_FILENO));
  }

  void write(const std::string& line) {
    const std::lock_guard lock(mutex_);
    pending_ += fmt::format("millrace: store: {}\n", line);
    flush();
  }

  void open(const std::filesystem::path& path) {
    auto opened = File::open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    const std::lock_guard lock(mutex_);
    if (opened.ok()) file_ = *std::move(opened);
    flush();
  }

 private:
  // One write a line, so that lines of several processes do not mix.
  void flush() {
    if (!file_.is_open() || pending_.empty()) return;
    static_cast<void>(!::write(file_.fd(), pending_.data(), pending_.size()));
    pending_.clear();
  }

  std::mutex mutex_;
  File file_;
  std::string pending_;
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

File ending_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return File(::signalfd(-1, &signals, SFD_CLOEXEC));
}

void wait_for_end(const File& signals, const File& watched) {
  pollfd ends[] = {{.fd = signals.fd(), .events = POLLIN, .revents = 0},
                   {.fd = watched.fd(), .events = POLLIN, .revents = 0}};  // -1 is ignored
  while (::poll(ends, 2, -1) < 0 && errno == EINTR) {
  }
}

void tell(int pipe, char kind, const std::string& text) {
  const std::string message = kind + text;
  static_cast<void>(!::write(pipe, message.data(), message.size()));
  ::close(pipe);
}

int run_child(ServiceProcessOptions options, int pipe) {
  ::setsid();
  const File signals = ending_signals();
  allow_many_descriptors();
  redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
  redirect(STDOUT_FILENO, "/dev/null", O_WRONLY);
  if (options.is_background) redirect(STDERR_FILENO, "/dev/null", O_WRONLY);
  ServiceLog log(options.is_background);
  options.service.log = [&](const std::string& line) { log.write(line); };
  const auto service = Service::start(std::move(options.service));
  if (!service.ok()) {
    tell(pipe, kFailed, service.error().message());
    return 1;
  }
  if (options.is_background) log.open((*service)->node() / kLogFile);
  tell(pipe, kStarted, (*service)->node().string());
  wait_for_end(signals, options.watched);
  return 0;
}

std::string read_all(const File& pipe) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::read(pipe.fd(), buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return text;
    text.append(buffer, static_cast<size_t>(size));
  }
}

}  // namespace

Result<StartedService> start_service_process(ServiceProcessOptions options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_os(errno, "cannot create a pipe");
  File reading(ends[0]);
  File writing(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail_os(errno, "cannot start a process");
  if (child == 0) {
    static_cast<void>(reading.close());
    ::_exit(run_child(std::move(options), writing.fd()));
  }
  static_cast<void>(writing.close());
  const std::string report = read_all(reading);
  if (report.starts_with(kStarted)) return StartedService{.pid = child, .node = report.substr(1)};
  int status = 0;
  ::waitpid(child, &status, 0);
  if (report.starts_with(kFailed)) return fail(Errc::kIo, "{}", report.substr(1));
  return fail(Errc::kIo, "the store's service ended before it was ready (wait status {})", status);
}

File watch_process(pid_t pid) { return File(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

}  // namespace millrace::store
