// The verb `info`: what a trace holds.
#include "cli/verbs.h"
#include "trace/summary_report.h"

namespace millrace::cli {
namespace {

Result<int> run_info(const Arguments& arguments, Output& output) {
  const std::vector<std::string>& paths = arguments.positionals();
  ASSIGN_OR_RETURN(const trace::Trace opened, paths.size() == 1 ? trace::Trace::open(paths.front())
                                                                : trace::Trace::open_all(paths));
  const trace::Summary summary = trace::summarise(opened);
  output.print(arguments.has("json") ? trace::summary_json(opened, summary)
                                     : trace::summary_text(opened, summary, output.terminal()));
  return kExitSuccess;
}

}  // namespace

Command info_command() {
  return {
      .name = "info",
      .summary = "what a trace holds: processes, calls, bytes, losses, and what is not itemised",
      .description =
          "Counts everything in a trace: hosts, ranks, processes and threads, events by call with "
          "their time and bytes, and files. It also names what the trace cannot itemise (mapped "
          "files, io_uring rings, programs that left no events), what was lost and why, how well the "
          "clocks of several hosts agree, and parts that could not be read.\n\n"
          "A trace is the directory that was recorded into, one session's directory in it, or one "
          "packed *.mrt file. It may still be recorded. Several are taken as one job, as those that "
          "nodes wrote to their own disks.",
      .options = {json_option()},
      .positionals = {{.name = "TRACE",
                       .help = "directories or *.mrt files of one job",
                       .kind = ValueKind::kFile,
                       .repeatable = true}},
      .examples = {{"millrace info t/", "what was recorded into t/"},
                   {"millrace info node1/ node2/", "one job, of which each node kept its part"},
                   {"millrace info --json t/ | jq '.calls[] | select(.call == \"read\")'",
                    "one call's figures for a program"}},
      .run = run_info,
  };
}

}  // namespace millrace::cli
