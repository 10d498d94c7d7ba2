// The verb `report`: what a job did, and where it waited.
#include "report/report.h"

#include <fmt/core.h>

#include "advise/findings_json.h"
#include "advise/findings_text.h"
#include "advise/verdict.h"
#include "analyze/detail/detail.h"
#include "analyze/profile/profile_json.h"
#include "base/io/atomic_file.h"
#include "base/io/gzip.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/options/inputs.h"
#include "cli/options/machine_options.h"
#include "cli/verbs.h"
#include "report/scaling.h"

namespace millrace::cli {
namespace {

constexpr size_t kRows = 20;
constexpr size_t kFindingsShown = 5;

analyze::Limits limits_of(const Arguments& arguments) {
  analyze::Limits limits;
  limits.all_steps = arguments.value("by") == "step";
  return limits;
}

// A profiled job with its findings and verdict.
struct Reported {
  ProfiledJob job;
  std::vector<advise::Finding> findings;
  advise::Verdict verdict;
};

std::string summary_of(const Reported& reported, const Output& output) {
  const analyze::Profile& profile = reported.job.profile;
  const std::string text = report::report_text(profile, reported.verdict, output.terminal());
  if (profile.job.events == 0 && reported.findings.empty()) return text;  // nothing to judge
  return text + "\n" + advise::findings_brief(reported.findings, kFindingsShown, output.terminal());
}

void write_job(JsonWriter& json, const Reported& reported) {
  json.begin_object();
  analyze::write_profile(json, reported.job.profile);
  advise::write_advice(json, reported.verdict, reported.findings);
  json.end_object();
}

std::string json_of(const Reported& reported) {
  JsonWriter json;
  write_job(json, reported);
  return std::move(json).finish();
}

// The requested output for one job.
std::string text_of(const Reported& reported, const Arguments& arguments, const Output& output) {
  const analyze::Profile& profile = reported.job.profile;
  if (const auto by = arguments.value("by")) {
    const report::ProfileTable table = report::table_by(profile, *by);
    if (arguments.has("csv")) return report::table_csv(table);
    if (arguments.has("json")) return report::table_json(table);
    return report::table_text(table, kRows, output.terminal());
  }
  if (arguments.has("csv")) return report::table_csv(report::table_by(profile, "function"));
  return arguments.has("json") ? json_of(reported) : summary_of(reported, output);
}

Status write_page(const Reported& reported, const std::string& path) {
  analyze::DetailLimits limits;
  // Without compression the page is three times as large.
  if (!GzipWriter::create(1).ok()) limits.events = 30'000;
  const std::string detail =
      analyze::detail_json(reported.job.scan->context(), reported.job.profile, limits);
  JsonWriter findings;
  findings.begin_object();
  advise::write_advice(findings, reported.verdict, reported.findings);
  findings.end_object();
  ASSIGN_OR_RETURN(const std::string page,
                   report::report_html(analyze::profile_json(reported.job.profile),
                                       std::move(findings).finish(), detail));
  return write_file_atomically(path, bytes_of(page));
}

// Several jobs: their scaling, then each job.
std::string several_of(const std::vector<Reported>& jobs, const Arguments& arguments,
                       const Output& output) {
  std::vector<analyze::Profile> profiles;
  for (const Reported& reported : jobs) profiles.push_back(reported.job.profile);
  const report::Scaling scaling = report::scaling_of(profiles);
  if (arguments.has("json") && !arguments.has("by")) {
    JsonWriter json;
    json.begin_object();
    report::write_scaling(json, scaling);
    json.key("jobs");
    json.begin_list();
    for (const Reported& reported : jobs) write_job(json, reported);
    json.end_list();
    json.end_object();
    return std::move(json).finish();
  }
  const bool summary = !arguments.has("by") && !arguments.has("csv");
  std::string out = summary ? report::scaling_text(scaling, output.terminal()) : "";
  for (const Reported& reported : jobs) {
    if (summary) out += fmt::format("\n== {}\n", printable(reported.job.job->title));
    out += text_of(reported, arguments, output);
  }
  return out;
}

Result<int> report_with(const Arguments& arguments, Output& output, comm::Comm& comm) {
  const auto paths = interop::jobs_of(arguments.positionals(), arguments.has("one-job"));
  const auto html = arguments.value("html");
  if (html && paths.size() > 1) {
    return fail(Errc::kInvalidArgument,
                "--html shows one job, but {} were given; give one, or use --one-job",
                paths.size());
  }
  const advise::MachineWords words = machine_words(arguments);
  std::vector<Reported> jobs;
  for (const interop::JobPaths& job : paths) {
    ASSIGN_OR_RETURN(ProfiledJob profiled, profile_job(job, arguments, limits_of(arguments), comm));
    if (comm.rank() != comm::kFirstRank) continue;
    warn_of(profiled.profile.problems);
    ASSIGN_OR_RETURN(const advise::Machine machine,
                     advise::apply_overrides(advise::detect_machine(profiled.profile), words));
    auto findings = advise::advise(profiled.profile, machine);
    auto verdict = advise::verdict_of(profiled.profile, findings);
    jobs.push_back({.job = std::move(profiled),
                    .findings = std::move(findings),
                    .verdict = std::move(verdict)});
  }
  if (jobs.empty()) return kExitSuccess;
  if (html) {
    RETURN_IF_ERROR(write_page(jobs.front(), *html));
    if (!is_standard_output(*html)) output.print(fmt::format("{}\n", printable(*html)));
    const bool only_page = !arguments.has("json") && !arguments.has("csv") && !arguments.has("by");
    if (only_page) return kExitSuccess;
  }
  output.print(jobs.size() == 1 ? text_of(jobs.front(), arguments, output)
                                : several_of(jobs, arguments, output));
  return kExitSuccess;
}

Result<int> run_report(const Arguments& arguments, Output& output) {
  return with_ranks([&](comm::Comm& comm) { return report_with(arguments, output, comm); });
}

}  // namespace

Command report_command() {
  const std::vector<Option> options = {
      json_option(),
      {.name = "by",
       .value = "WHAT",
       .help = "print this table instead of the summary",
       .choices = report::table_names()},
      {.name = "csv",
       .help = "print the table as CSV (default: --by function)",
       .alternatives = {"json"}},
      file_option("html", "write one interactive page with everything, for a browser"),
      {.name = "one-job", .help = "treat all paths as one job, even several directories"},
  };
  return {
      .name = "report",
      .summary = "what a job did, where it waited, and for what",
      .description =
          "Reads traces, of Millrace or DFTracer, and shows what the job did: how much of its time "
          "was compute, I/O and waiting, and how much of the I/O overlapped with compute; what "
          "each function and layer did; which files were read, how often, by which ranks and in "
          "which order; and the most important findings (`millrace advise` explains them).\n\n"
          "Files given together are one job. Each directory is a separate job; several jobs are "
          "compared by their number of hosts and ranks. Parts that cannot be read are reported, "
          "and the rest is used. Under mpirun, the ranks share the work.",
      .options = joined({options, input_options(), machine_options()}),
      .positionals = {traces_positional()},
      .examples = {{"millrace report t/", "one screen about the job recorded into t/"},
                   {"millrace report t/ --html t.html", "everything as one page for a browser"},
                   {"millrace report t/ --by file", "the files that took the most time"},
                   {"millrace report t/ --json > before.json", "a profile to compare with later"},
                   {"millrace report 1node/ 2nodes/ 4nodes/", "how the job scales"},
                   {"mpirun -n 8 millrace report t/", "a large trace, read by eight processes"}},
      .run = run_report,
  };
}

}  // namespace millrace::cli
