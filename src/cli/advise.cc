// The verb `advise`: what to change in a job, and why.
#include <fmt/core.h>

#include "advise/findings_json.h"
#include "advise/findings_text.h"
#include "advise/trial.h"
#include "advise/verdict.h"
#include "base/text/text.h"
#include "cli/advise_try.h"
#include "cli/options/inputs.h"
#include "cli/options/machine_options.h"
#include "cli/verbs.h"

namespace millrace::cli {
namespace {

Result<advise::Trial> tried(const Arguments& arguments, const analyze::Profile& profile) {
  ASSIGN_OR_RETURN(advise::Trial trial, try_store({.trace = arguments.positionals().front(),
                                                   .parent = arguments.value("scratch")})
                                            .within("--try"));
  trial.gain = advise::measured_gain(profile, trial);
  return trial;
}

Result<int> advise_with(const Arguments& arguments, Output& output, comm::Comm& comm) {
  const advise::MachineWords words = machine_words(arguments);
  const auto& paths = arguments.positionals();
  analyze::Profile profile;
  if (paths.size() == 1) {
    ASSIGN_OR_RETURN(profile, profile_at(paths.front(), arguments, comm));
  } else {
    const auto jobs = interop::jobs_of(paths, /*one_job=*/true);
    ASSIGN_OR_RETURN(ProfiledJob profiled,
                     profile_job(jobs.front(), arguments, analyze::Limits(), comm));
    profile = std::move(profiled.profile);
  }
  if (comm.rank() != comm::kFirstRank) return kExitSuccess;
  warn_of(profile.problems);
  ASSIGN_OR_RETURN(const advise::Machine machine,
                   advise::apply_overrides(advise::detect_machine(profile), words));
  std::vector<advise::Finding> findings = advise::advise(profile, machine);
  std::optional<advise::Trial> trial;
  if (arguments.has("try")) {
    ASSIGN_OR_RETURN(trial, tried(arguments, profile));
    advise::add_trial(*trial, findings);
  }
  const advise::Verdict verdict = advise::verdict_of(profile, findings);
  if (arguments.has("json")) {
    output.print(advise::findings_json(verdict, findings, machine, trial ? &*trial : nullptr));
  } else if (profile.job.events == 0 && findings.empty()) {
    output.print(fmt::format("{}\n", printable(verdict.sentence)));  // nothing to judge
  } else {
    output.print(advise::findings_text(verdict, findings, machine, output.terminal()));
  }
  if (trial && !arguments.has("json")) {
    output.print("\n" + advise::trial_text(*trial, output.terminal()));
  }
  return kExitSuccess;
}

Status check_advise(const Arguments& arguments) {
  const size_t count = arguments.positionals().size();
  if (count == 0 && !arguments.has("rules")) {
    return fail(Errc::kInvalidArgument, "advise needs a trace, or --rules");
  }
  if (count > 0 && arguments.has("rules")) {
    return fail(Errc::kInvalidArgument, "--rules takes no trace");
  }
  if (count != 1 && arguments.has("try")) {
    return fail(Errc::kInvalidArgument, "--try takes one trace");
  }
  return {};
}

Result<int> run_advise(const Arguments& arguments, Output& output) {
  if (arguments.has("rules")) {
    output.print(arguments.has("json") ? advise::rules_json()
                                       : advise::rules_text(output.terminal()));
    return kExitSuccess;
  }
  return with_ranks([&](comm::Comm& comm) { return advise_with(arguments, output, comm); });
}

}  // namespace

Command advise_command() {
  const std::vector<Option> options = {
      json_option(),
      {.name = "rules", .help = "list all rules and exit"},
      {.name = "try",
       .help = "measure what millrace store gains, on a sample of the "
               "dataset"},
      {.name = "scratch",
       .value = "DIR",
       .help = "with --try: where the sample goes, at most 1 GiB ($TMPDIR or /tmp)",
       .kind = ValueKind::kDirectory,
       .needs = "try"}};
  Positional traces = traces_positional();
  traces.help = "a trace, or a profile saved by `report --json`";
  traces.required = false;
  return {
      .name = "advise",
      .summary = "what to change in a job, with evidence and expected gain",
      .description =
          "Looks for known problems of training jobs in a trace. Each finding has the evidence, "
          "the threshold and its reason, what to change in the framework in use, and how much that "
          "can gain at most. A job without problems gets no findings.\n\n"
          "Cores, memory and local disks are detected if the job ran on this machine, and the kind of "
          "storage if its files are here. Otherwise specify them with options. Rules that need an "
          "unknown value are skipped; the last line names the unknown values.\n\n"
          "With --try, the calls of the job on a random sample of its files are made again: on the "
          "files, and on a store with the same files (`millrace store run`, `millrace replay`). The "
          "measured gain is printed beside the estimate. The dataset must still be there; it is only "
          "read. The sample has at most 10,000 files and 1 GiB, and is removed at the end.",
      .options = joined({options, input_options(), machine_options()}),
      .positionals = {std::move(traces)},
      .examples = {{"millrace advise t/", "what to change in the job recorded into t/"},
                   {"millrace advise t/ --data-storage lustre --memory 256GiB",
                    "for a job that ran on a cluster"},
                   {"millrace advise t/ --try", "and measure what a store would gain"},
                   {"millrace advise --rules", "list all rules"}},
      .check = check_advise,
      .run = run_advise,
  };
}

}  // namespace millrace::cli
