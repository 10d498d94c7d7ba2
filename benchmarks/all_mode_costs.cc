// What a system call costs when it is traced from outside (`millrace trace --all`).
//
// This program runs itself twice: untraced, as the floor, and traced. It measures wall time,
// because the program sleeps while the tracer works.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/io/temporary_directory.h"
#include "base/system/terminal.h"
#include "base/text/table.h"
#include "trace/all/all_mode.h"
#include "trace/preload/session.h"
#include "trace/preload/text.h"

namespace millrace::bench {
namespace {

constexpr long kCalls = 50'000;
constexpr int kRounds = 5;
constexpr size_t kBlockBytes = 4096;

using Clock = std::chrono::steady_clock;

// Makes kCalls calls in a process started for it, and returns the total in nanoseconds.
template <typename Body>
long time_calls(Body body) {
  const auto begin = Clock::now();
  for (long i = 0; i < kCalls; ++i) body(i);
  return (Clock::now() - begin).count();
}

long do_work(const char* what, const char* path) {
  static char block[kBlockBytes];
  const int fd = open(path, O_RDONLY);
  const auto require = [](bool worked) {
    if (!worked) std::abort();
  };
  if (std::strcmp(what, "pread") == 0) {
    return time_calls(
        [&](long i) { require(pread(fd, block, kBlockBytes, i % 16 * 4096) == kBlockBytes); });
  }
  if (std::strcmp(what, "read") == 0) {
    return time_calls([&](long i) {
      if (i % 16 == 0) lseek(fd, 0, SEEK_SET);
      require(read(fd, block, kBlockBytes) == kBlockBytes);
    });
  }
  if (std::strcmp(what, "open") == 0) {
    return time_calls([&](long) { require(close(open(path, O_RDONLY)) == 0); });
  }
  return time_calls([&](long) { require(syscall(SYS_getppid) > 0); });
}

// Starts the program and returns the time that it reports through a pipe.
long run_once(const char* what, const std::string& path, const std::string& session) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  trace::AllModeOptions options;
  options.argv = {"/proc/self/exe", what, path, std::to_string(ends[1])};
  options.session = session;
  pid_t child = -1;
  if (session.empty()) {
    child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "bench_all_mode", what, path.c_str(), options.argv[3].c_str(),
            nullptr);
      _exit(127);
    }
  } else {
    const auto started = trace::start_with_system_calls(options);
    if (!started.ok()) {
      fmt::print(stderr, "bench_all_mode: {}\n", started.error().message());
      std::exit(1);
    }
    child = *started;
  }
  close(ends[1]);
  long nanoseconds = 0;
  if (read(ends[0], &nanoseconds, sizeof(nanoseconds)) != sizeof(nanoseconds)) std::abort();
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return nanoseconds;
}

std::string make_session(const std::string& directory) {
  auto settings = std::make_unique<trace::Settings>();
  trace::copy_cut(settings->directory, directory);
  int error = 0;
  if (trace::attach_session(*settings, &error) == nullptr) std::abort();
  return settings->session;
}

void compare_all() {
  const auto directory = TemporaryDirectory::create();
  if (!directory.ok()) std::abort();
  const std::string path = directory->path() / "data";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT, 0644);
  if (fd < 0 || ftruncate(fd, 16 * 4096) != 0) std::abort();
  close(fd);
  const std::string session = make_session(directory->path() / "trace");
  Table table({{.title = "a call, traced from outside"},
               {.title = "untraced, us", .align = Table::Align::kRight},
               {.title = "traced, us", .align = Table::Align::kRight},
               {.title = "added, us", .align = Table::Align::kRight}});
  for (const char* what : {"pread", "read", "open", "getppid"}) {
    long best[2] = {__LONG_MAX__, __LONG_MAX__};
    for (int round = 0; round < kRounds; ++round) {
      best[0] = std::min(best[0], run_once(what, path, ""));
      best[1] = std::min(best[1], run_once(what, path, session));
    }
    const double plain = static_cast<double>(best[0]) / kCalls / 1000;
    const double watched = static_cast<double>(best[1]) / kCalls / 1000;
    const char* name = std::strcmp(what, "open") == 0      ? "open and close (2 calls)"
                       : std::strcmp(what, "getppid") == 0 ? "getppid (not I/O: not stopped)"
                       : std::strcmp(what, "read") == 0    ? "read of 4 KiB"
                                                           : "pread of 4 KiB";
    table.add_row({name, fmt::format("{:.2f}", plain), fmt::format("{:.2f}", watched),
                   fmt::format("{:.2f}", watched - plain)});
  }
  fmt::print("{}\n", table.render(inspect_terminal(1)));
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) {
  if (argc == 4) {
    const long nanoseconds = millrace::bench::do_work(argv[1], argv[2]);
    return write(std::atoi(argv[3]), &nanoseconds, sizeof(nanoseconds)) == sizeof(nanoseconds) ? 0
                                                                                               : 1;
  }
  millrace::bench::compare_all();
  return 0;
}
