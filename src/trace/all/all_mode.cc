#include "trace/all/all_mode.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "base/io/file.h"
#include "base/system/subprocess.h"
#include "trace/all/session_names.h"
#include "trace/all/system_call_filter.h"
#include "trace/all/system_call_tracer.h"
#include "trace/preload/session.h"
#include "trace/preload/text.h"

namespace millrace::trace {
namespace {

// There are three processes: the launcher, the command and the watcher. The watcher sends the
// command its PID. The command permits it to attach. The watcher attaches and reports it, and the
// command calls exec. Failures are reported to the launcher.
struct Pipe {
  File read_end;
  File write_end;
};

struct Pipes {
  Pipe watcher_pid;
  Pipe permitted;
  Pipe attached;
  Pipe failure;
};

enum class Step : int32_t { kNone = 0, kAttach, kFilter, kExec };

struct Failure {
  Step step = Step::kNone;
  int32_t error = 0;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_os(errno, "cannot create a pipe");
  return Pipe{File(ends[0]), File(ends[1])};
}

// Between fork and exec nothing may be allocated: only plain reads and writes.
template <typename T>
bool receive(const File& from, T& value) {
  ssize_t count;
  do {
    count = read(from.fd(), &value, sizeof(value));
  } while (count < 0 && errno == EINTR);
  return count == sizeof(value);
}

template <typename T>
bool send(const File& to, const T& value) {
  return write(to.fd(), &value, sizeof(value)) == sizeof(value);
}

struct CommandImage {
  std::vector<char*> argv;
  std::vector<char*> environment;
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void become_command(Pipes& pipes, const CommandImage& image) {
  pipes.watcher_pid.write_end = File();
  pipes.attached.write_end = File();
  pipes.failure.read_end = File();
  pid_t watcher = 0;
  char attached = 0;
  if (!receive(pipes.watcher_pid.read_end, watcher)) _exit(126);
  // Yama lets only ancestors attach, unless a process is named here. Without Yama this call fails,
  // and is not needed.
  prctl(PR_SET_PTRACER, watcher, 0, 0, 0);
  if (!send(pipes.permitted.write_end, 'p') || !receive(pipes.attached.read_end, attached)) {
    _exit(126);
  }
  Failure failure{Step::kFilter, install_system_call_filter()};
  if (failure.error == 0) {
    execvpe(image.argv[0], image.argv.data(), image.environment.data());
    failure = {Step::kExec, errno};
  }
  send(pipes.failure.write_end, failure);
  _exit(failure.error == ENOENT ? 127 : 126);
}

// The watcher must not keep pipes, directories or the terminal busy, nor end with the terminal.
void detach_from_caller(const Pipes& pipes) {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM,
                           SIGTSTP, SIGTTIN, SIGTTOU}) {
    ::signal(signal, SIG_IGN);
  }
  const int nothing = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(nothing, fd);
  close_descriptors_except({pipes.watcher_pid.write_end.fd(), pipes.permitted.read_end.fd(),
                            pipes.attached.write_end.fd(), pipes.failure.write_end.fd()});
  prctl(PR_SET_NAME, kWatcherName, 0, 0, 0);
  if (chdir("/") != 0) return;  // then it stays where it is
}

[[noreturn]] void become_watcher(Pipes& pipes, pid_t command, CallFollower follower) {
  pipes.permitted.write_end = File();
  pipes.watcher_pid.read_end = File();
  pipes.attached.read_end = File();
  pipes.failure.read_end = File();
  detach_from_caller(pipes);
  SystemCallTracer tracer(std::move(follower));
  char permitted = 0;
  const pid_t self = getpid();
  if (!send(pipes.watcher_pid.write_end, self) || !receive(pipes.permitted.read_end, permitted)) {
    _exit(1);
  }
  const int error = tracer.attach(static_cast<uint32_t>(command));
  if (error != 0) {
    send(pipes.failure.write_end, Failure{Step::kAttach, error});
    _exit(1);
  }
  send(pipes.attached.write_end, 'a');
  pipes = Pipes{};
  tracer.run();
  _exit(0);
}

// The watcher is detached: neither the launcher nor the command waits for it.
Status start_watcher(Pipes& pipes, pid_t command, CallFollower& follower) {
  const pid_t between = fork();
  if (between < 0) return fail_os(errno, "cannot start the process that watches the command");
  if (between == 0) {
    setsid();
    const pid_t watcher = fork();
    if (watcher == 0) become_watcher(pipes, command, std::move(follower));
    _exit(watcher < 0 ? 1 : 0);
  }
  int status = 0;
  while (waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == 0) return {};
  return fail(Errc::kExhausted,
              "cannot start the process that watches the command: no process "
              "can be created; check ulimit -u");
}

std::string describe_yama() {
  const auto scope = read_file("/proc/sys/kernel/yama/ptrace_scope", 64);
  if (!scope.ok()) return "";
  return fmt::format("; kernel.yama.ptrace_scope is {}",
                     scope->substr(0, scope->find_last_not_of('\n') + 1));
}

Error explain(const Failure& failure, const std::string& command) {
  switch (failure.step) {
    case Step::kAttach:
      return fail(
          Errc::kPermission,
          "cannot watch the command from outside: ptrace is refused ({}{}). In a container, "
          "allow it (docker: --cap-add=SYS_PTRACE); or trace without --all, which records "
          "programs that use the C library",
          describe_os_error(failure.error), describe_yama());
    case Step::kFilter:
      return fail(
          Errc::kPermission,
          "cannot watch the command from outside: the kernel refuses a seccomp filter ({}). "
          "In a container, allow it (docker: --security-opt seccomp=unconfined); or trace "
          "without --all, which records programs that use the C library",
          describe_os_error(failure.error));
    case Step::kExec:
    case Step::kNone:
      break;
  }
  return fail_os(failure.error, "cannot start").within(command);
}

// PTRACE_GET_SYSCALL_INFO needs Linux 5.3.
Status check_kernel() {
  utsname system{};
  uname(&system);
  const std::string_view release(system.release);
  int major = 0;
  int minor = 0;
  const char* const end = release.data() + release.size();
  const auto after = std::from_chars(release.data(), end, major);
  if (after.ptr < end) std::from_chars(after.ptr + 1, end, minor);
  if (major > 5 || (major == 5 && minor >= 3)) return {};
  return fail(
      Errc::kUnsupported,
      "--all needs Linux 5.3 or newer, but this is {}; trace without it, which records programs "
      "that use the C library",
      release);
}

Result<CallFollower> make_follower(const AllModeOptions& options) {
  auto settings = std::make_unique<Settings>();
  const std::string session = std::filesystem::absolute(options.session).lexically_normal();
  copy_cut(settings->session, session);
  copy_cut(settings->include, options.include);
  copy_cut(settings->exclude, options.exclude);
  int error = 0;
  wire::SessionPage* page = attach_session(*settings, &error);
  if (page == nullptr) return fail_os(error, "cannot open the session").within(options.session);
  ASSIGN_OR_RETURN(SessionNames names, SessionNames::open(*settings));
  return CallFollower(page, session, std::move(names), options.own_libraries);
}

}  // namespace

Result<pid_t> start_with_system_calls(const AllModeOptions& options) {
  if (options.argv.empty()) return fail(Errc::kInvalidArgument, "there is no command to run");
  RETURN_IF_ERROR(check_kernel());
  ASSIGN_OR_RETURN(CallFollower follower, make_follower(options));
  const CommandImage image{pointers_to(options.argv), pointers_to(options.environment)};
  Pipes pipes;
  for (Pipe* pipe : {&pipes.watcher_pid, &pipes.permitted, &pipes.attached, &pipes.failure}) {
    ASSIGN_OR_RETURN(*pipe, make_pipe());
  }
  const pid_t command = fork();
  if (command < 0) return fail_os(errno, "cannot start a process");
  if (command == 0) become_command(pipes, image);
  const Status started = start_watcher(pipes, command, follower);
  Pipe failure_pipe = std::move(pipes.failure);
  pipes = Pipes{};  // closes our ends, so that processes waiting for us notice
  failure_pipe.write_end = File();
  Failure failure;
  if (started.ok() && !receive(failure_pipe.read_end, failure)) return command;
  while (waitpid(command, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!started.ok()) return started.error();
  return explain(failure, options.argv[0]);
}

Result<int> run_with_system_calls(const AllModeOptions& options) {
  ASSIGN_OR_RETURN(const pid_t command, start_with_system_calls(options));
  int status = 0;
  while (waitpid(command, &status, 0) < 0) {
    if (errno != EINTR) return fail_os(errno, "cannot wait for the command");
  }
  return status;
}

}  // namespace millrace::trace
