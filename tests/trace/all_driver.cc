// Runs a command under trace::run_with_system_calls, and exits like the command.
//
// Usage: all_driver DIRECTORY LIBRARY COMMAND...
// Makes the session in DIRECTORY, like the library. LIBRARY is preloaded with the POSIX level off,
// as in `millrace trace --all`; with '-', nothing is preloaded. ALL_INCLUDE and ALL_EXCLUDE are
// globs.
#include <fmt/core.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "trace/all/all_mode.h"
#include "trace/preload/session.h"
#include "trace/preload/text.h"

namespace {

using namespace millrace;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string make_session(const std::string& directory) {
  auto settings = std::make_unique<trace::Settings>();
  trace::copy_cut(settings->directory, directory);
  int error = 0;
  if (trace::attach_session(*settings, &error) == nullptr) {
    fmt::print(stderr, "all_driver: {}: {}\n", directory, describe_os_error(error));
    std::exit(1);
  }
  return settings->session;
}

int end_as(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);  // a core file, if any, is the command's
  signal(WTERMSIG(status), SIG_DFL);
  raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  trace::AllModeOptions options;
  options.argv.assign(argv + 3, argv + argc);
  options.session = make_session(argv[1]);
  options.include = variable("ALL_INCLUDE");
  options.exclude = variable("ALL_EXCLUDE");
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
  const std::string library = argv[2];
  if (library != "-") {
    options.own_libraries.push_back(library);
    options.environment.push_back("LD_PRELOAD=" + library);
    options.environment.push_back("MILLRACE_TRACE_SESSION=" + options.session);
    options.environment.push_back("MILLRACE_TRACE_LEVELS=stdio,mpiio,hdf5,app");
  }
  const auto status = trace::run_with_system_calls(options);
  if (!status.ok()) {
    fmt::print(stderr, "all_driver: {}\n", status.error().message());
    return status.error().code() == Errc::kNotFound ? 127 : 125;
  }
  return end_as(*status);
}
