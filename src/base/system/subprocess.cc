#include "base/system/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "base/io/file.h"
#include "base/system/clock.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_of(const SubprocessOptions& options) {
  const auto& additions = options.environment;
  const auto& prefixes = options.removed_prefixes;
  std::vector<std::string> out;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(additions.begin(), additions.end(),
                                      [&](const auto& addition) { return addition.first == name; });
    const bool removed = std::any_of(prefixes.begin(), prefixes.end(),
                                     [&](const auto& prefix) { return name.starts_with(prefix); });
    if (!replaced && !removed) out.emplace_back(text);
  }
  for (const auto& [name, value] : additions) out.push_back(fmt::format("{}={}", name, value));
  return out;
}

// Not posix_spawnp: if PATH has a directory that we may not enter, it reports a missing program as
// forbidden.
Result<std::string> path_of(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  std::string path = find_in_path(program);
  if (path.empty()) return fail(Errc::kNotFound, "{}: is not in PATH", program);
  return path;
}

Result<pid_t> spawn(std::vector<std::string> argv, std::vector<std::string> environment,
                    int output_fd) {
  ASSIGN_OR_RETURN(const std::string path, path_of(argv[0]));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_fd, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int os_error = posix_spawn(&pid, path.c_str(), &actions, &attributes,
                                   pointers_to(argv).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (os_error != 0) return fail_os(os_error, "cannot be started").within(argv[0]);
  return pid;
}

// Until when to wait for a program.
struct Patience {
  std::chrono::nanoseconds deadline;
  const std::atomic<bool>* cancelled;

  bool is_cancelled() const { return cancelled != nullptr && *cancelled; }
  bool is_over() const { return is_cancelled() || monotonic_now() >= deadline; }
  // For poll().
  int left_ms() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - monotonic_now());
    return static_cast<int>(cancelled != nullptr ? std::min(left, 50ms).count() : left.count());
  }
};

// Reads until the other end closes. Returns false if the patience ends first.
bool read_until_closed(const File& pipe, const Patience& patience, size_t limit_bytes,
                       std::string& output) {
  while (!patience.is_over()) {
    pollfd waiting{pipe.fd(), POLLIN, 0};
    if (poll(&waiting, 1, std::max(1, patience.left_ms())) <= 0) continue;
    char buffer[4096];
    const ssize_t got = read(pipe.fd(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    const size_t room = limit_bytes - std::min(limit_bytes, output.size());
    output.append(buffer, std::min(static_cast<size_t>(got), room));
  }
  return false;
}

constexpr int kExitCodeLost = 255;

// A program may close its output and keep running, so wait for its exit separately.
bool reap_before(pid_t pid, const Patience& patience, int& wait_status) {
  for (;;) {
    const pid_t ended = waitpid(pid, &wait_status, WNOHANG);
    if (ended == pid) return true;
    if (ended < 0 && errno != EINTR) {
      // SIGCHLD is ignored: the program has ended, but its exit code is lost. That must not look
      // like success.
      wait_status = kExitCodeLost << 8;
      return true;
    }
    if (patience.is_over()) return false;
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace

Result<SubprocessResult> run_subprocess(const std::vector<std::string>& argv,
                                        const SubprocessOptions& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_os(errno, "cannot create a pipe");
  const File read_end(ends[0]);
  File write_end(ends[1]);
  ASSIGN_OR_RETURN(const pid_t pid, spawn(argv, environment_of(options), write_end.fd()));
  RETURN_IF_ERROR(write_end.close());

  SubprocessResult result;
  int wait_status = 0;
  const Patience patience{monotonic_now() + options.timeout, options.cancelled};
  if (!read_until_closed(read_end, patience, options.output_limit_bytes, result.output) ||
      !reap_before(pid, patience, wait_status)) {
    kill(-pid, SIGKILL);
    waitpid(pid, &wait_status, 0);
    if (patience.is_cancelled()) return fail(Errc::kCancelled, "{}: was interrupted", argv[0]);
    return fail(Errc::kTimeout, "{}: did not exit within {} ms", argv[0], options.timeout.count());
  }
  result.exit_code =
      WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
  return result;
}

void close_descriptors_except(std::vector<int> kept) {
  kept.push_back(STDERR_FILENO);
  std::sort(kept.begin(), kept.end());
  unsigned first = STDERR_FILENO + 1;
  const auto close_until = [&](unsigned last) {
    if (first > last || ::syscall(SYS_close_range, first, last, 0) == 0) return;
    const auto end = static_cast<unsigned>(::sysconf(_SC_OPEN_MAX));  // before Linux 5.9
    for (unsigned fd = first; fd < end && fd <= last; ++fd) ::close(static_cast<int>(fd));
  };
  for (const int fd : kept) {
    if (fd < static_cast<int>(first)) continue;
    close_until(static_cast<unsigned>(fd) - 1);
    first = static_cast<unsigned>(fd) + 1;
  }
  close_until(~0u);
}

std::string find_in_path(std::string_view program) {
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable != nullptr ? variable : "/usr/bin:/bin";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string candidate = fmt::format("{}/{}", rest.substr(0, end), program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

}  // namespace millrace
