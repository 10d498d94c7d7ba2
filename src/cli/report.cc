// The verb `report`: what a job did, and where it waited.
#include "report/report.h"

#include <fmt/core.h>

#include "analyze/profile_json.h"
#include "base/atomic_file.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/inputs.h"
#include "cli/verbs.h"

namespace millrace::cli {
namespace {

constexpr size_t kRows = 20;

analyze::Limits limits_of(const Arguments& arguments) {
  analyze::Limits limits;
  limits.all_steps = arguments.value("by") == "step";
  return limits;
}

std::string text_of(const analyze::Profile& profile, const Arguments& arguments,
                    const Output& output) {
  if (const auto by = arguments.value("by")) {
    const report::ProfileTable table = report::table_by(profile, *by);
    if (arguments.has("csv")) return report::table_csv(table);
    if (arguments.has("json")) return report::table_json(table);
    return report::table_text(table, kRows, output.terminal());
  }
  if (arguments.has("csv")) return report::table_csv(report::table_by(profile, "function"));
  if (arguments.has("json")) return analyze::profile_json(profile);
  return report::report_text(profile, output.terminal());
}

Result<int> run_report(const Arguments& arguments, Output& output) {
  ASSIGN_OR_RETURN(const auto comm, connect_ranks());
  const auto jobs = exchange::jobs_of(arguments.positionals(), arguments.has("one-job"));
  for (const exchange::JobPaths& job : jobs) {
    ASSIGN_OR_RETURN(const ProfiledJob profiled,
                     profile_job(job, arguments, limits_of(arguments), *comm));
    if (comm->rank() != comm::kFirstRank) continue;
    warn_of(profiled.profile.problems);
    output.print(text_of(profiled.profile, arguments, output));
  }
  return kExitSuccess;
}

}  // namespace

Command report_command() {
  std::vector<Option> options = {
      json_option(),
      {.name = "by",
       .value = "WHAT",
       .help = "a table by this instead of the summary",
       .choices = report::table_names()},
      {.name = "csv", .help = "the table as CSV; of functions where --by says nothing else"},
      {.name = "one-job", .help = "all paths are of one job, also several directories"},
  };
  for (Option& option : input_options()) options.push_back(std::move(option));
  return {
      .name = "report",
      .summary = "what a job did, where it waited, and for what",
      .description =
          "Reads traces, ours or DFTracer's, and says what the job did: how its time was split "
          "between computing, I/O and waiting, by unions of intervals; what each function and layer "
          "did; which files were read how often, by whom and in which order.\n\n"
          "Files given together are one job; each directory is a job of its own. What cannot be "
          "read is named, and the rest is used.",
      .options = std::move(options),
      .positionals = {traces_positional()},
      .examples = {{"millrace report t/", "one screen about the job recorded into t/"},
                   {"millrace report t/ --by file", "the files it spent most time on"}},
      .run = run_report,
  };
}

}  // namespace millrace::cli
