// The verb `compact`: compacts recordings.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/verbs.h"
#include "trace/pack/packer.h"
#include "trace/record/session_directory.h"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kThreads = 2;

Result<std::vector<fs::path>> find_sessions(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return fail(Errc::kNotFound, "{}: not a directory; give one that was recorded into",
                printable(directory.native()));
  }
  if (trace::SessionDirectory::is_one(directory)) return std::vector{directory};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (trace::SessionDirectory::is_one(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string outcome_text(const fs::path& session, const fs::path& file,
                         const trace::PackOutcome& outcome) {
  std::string out = fmt::format("{}: {} compacted into {} ({})\n", printable(session.native()),
                                counted(outcome.events, "event", "events"),
                                printable(file.native()), format_bytes(outcome.packed_bytes));
  for (const trace::RunningProcess& process : outcome.running) {
    const std::string where =
        process.host.empty()
            ? "is still running"
            : fmt::format("may still be running on {}; if not, use --ended", process.host);
    out += fmt::format("  process {} ({}) {}\n", process.pid,
                       shorten(printable(process.command), 40), where);
  }
  return out;
}

Result<int> run_compact(const Arguments& arguments, Output& output) {
  const fs::path directory = arguments.positionals().front();
  ASSIGN_OR_RETURN(const auto sessions, find_sessions(directory));
  if (sessions.empty()) {
    output.print(fmt::format("{}: no recordings to compact\n", printable(directory.native())));
  }
  for (const fs::path& session : sessions) {
    const fs::path file = trace::Packer::default_output(session);
    ASSIGN_OR_RETURN(
        trace::Packer packer,
        trace::Packer::open(session, file,
                            {.threads = kThreads, .others_ended = arguments.has("ended")}));
    ASSIGN_OR_RETURN(const trace::PackOutcome outcome, packer.finish());
    output.print(outcome_text(session, file, outcome));
    for (const std::string& problem : outcome.problems) {
      fmt::print(stderr, "millrace: {}\n", printable(problem));
    }
  }
  return kExitSuccess;
}

}  // namespace

Command compact_command() {
  return {
      .name = "compact",
      .summary = "turn recordings into small trace files, and remove the recordings",
      .description =
          "`millrace trace` compacts recordings itself. Use this verb for recordings that are left "
          "over: from jobs recorded without the launcher, from daemons that outlived it, or from a "
          "launcher that was killed. Processes that are still running keep their recordings, and "
          "are listed. A trace can be read at any time, compacted or not.",
      .options = {{.name = "ended", .help = "assume that processes on other hosts have exited"}},
      .positionals = {{.name = "DIR",
                       .help = "the directory that was recorded into",
                       .kind = ValueKind::kDirectory}},
      .examples = {{"millrace compact t/", "compact the recordings in t/"},
                   {"millrace compact --ended t/", "also those of processes on other hosts"}},
      .run = run_compact,
  };
}

}  // namespace millrace::cli
