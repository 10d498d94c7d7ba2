// The verb `info`: what a trace holds.
#include "cli/verbs.h"
#include "trace/summary/summary.h"

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
      .summary = "what a trace holds: processes, calls, bytes, lost events",
      .description =
          "Counts everything in a trace: hosts, ranks, processes and threads, events by call with "
          "time and bytes, and files. Also shows what the trace cannot record in detail (mapped "
          "files, io_uring rings, programs that left no events), which events were lost and why, "
          "how well the clocks of several hosts agree, and parts that could not be read.\n\n"
          "A trace is the directory that was recorded into, the directory of one session in it, or "
          "one *.mrt file. It may still be recording. Several traces are read as one job, "
          "for example if each host recorded to its local disk.",
      .options = {json_option()},
      .positionals = {{.name = "TRACE",
                       .help = "directories or *.mrt files of one job",
                       .kind = ValueKind::kFile,
                       .repeatable = true}},
      .examples = {{"millrace info t/", "what was recorded into t/"},
                   {"millrace info node1/ node2/",
                    "one job, recorded on the local disk of each host"},
                   {"millrace info --json t/ | jq '.calls[] | select(.call == \"read\")'",
                    "the numbers of one call, for a program"}},
      .run = run_info,
  };
}

}  // namespace millrace::cli
