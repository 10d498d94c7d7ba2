// The verb `model`: the workload whose I/O is that of a trace.
#include "model/model.h"

#include <fmt/core.h>

#include <charconv>
#include <filesystem>

#include "base/io/atomic_file.h"
#include "base/text/text.h"
#include "cli/model_check.h"
#include "cli/options/inputs.h"
#include "cli/verbs.h"
#include "model/fidelity.h"
#include "model/modelled_text.h"

namespace millrace::cli {
namespace {

constexpr int kVersion = 1;

// Sizes and times come from single files and steps: more of them than a report shows.
constexpr analyze::Limits kLimits{.files = 200'000, .groups = 20'000, .all_steps = true};

Status check_scale(std::string_view text) {
  double scale = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, scale);
  if (error == std::errc() && stop == end && scale > 0 && scale <= 1) return {};
  return fail(Errc::kInvalidArgument, "'{}' is not a number above 0, up to 1", printable(text));
}

Result<analyze::Profile> profile_of_arguments(const Arguments& arguments, comm::Comm& comm) {
  const auto& paths = arguments.positionals();
  if (paths.size() == 1) return profile_at(paths.front(), arguments, comm, kLimits);
  const auto jobs = interop::jobs_of(paths, /*one_job=*/true);
  ASSIGN_OR_RETURN(ProfiledJob profiled, profile_job(jobs.front(), arguments, kLimits, comm));
  return std::move(profiled.profile);
}

Result<model::Fidelity> check_model(const Arguments& arguments, const analyze::Profile& profile,
                                    const model::Modelled& modelled) {
  const ModelRun run{.yaml = model::modelled_yaml(modelled),
                     .ranks = modelled.ranks,
                     .scale = arguments.value("scale").value_or(""),
                     .parent = arguments.value("scratch").value_or(
                         std::filesystem::temp_directory_path().string()),
                     .wall_ns = profile.job.wall_ns};
  ASSIGN_OR_RETURN(const analyze::Profile after, profile_of_model(run));
  return model::fidelity_of(profile, after);
}

std::string json_of(const model::Modelled& modelled, const model::Fidelity* fidelity) {
  JsonWriter json;
  json.begin_object();
  json.field("format", "millrace-model");
  json.field("version", kVersion);
  model::write_modelled(json, modelled);
  if (fidelity != nullptr) {
    json.key("check");
    model::write_fidelity(json, *fidelity);
  }
  json.end_object();
  return std::move(json).finish();
}

Result<int> model_with(const Arguments& arguments, Output& output, comm::Comm& comm) {
  ASSIGN_OR_RETURN(const analyze::Profile profile, profile_of_arguments(arguments, comm));
  if (comm.rank() != comm::kFirstRank) return kExitSuccess;
  warn_of(profile.problems);
  ASSIGN_OR_RETURN(const model::Modelled modelled,
                   model::model_of(profile, {.name = arguments.value("name").value_or("")})
                       .within(arguments.positionals().front()));
  const std::string yaml = model::modelled_yaml(modelled);
  const auto path = arguments.value("output");
  if (path) RETURN_IF_ERROR(write_file_atomically(*path, bytes_of(yaml)).within(*path));
  const bool json = arguments.has("json");
  if (!path && !json) output.print(yaml);
  if (!arguments.has("check")) {
    if (json) output.print(json_of(modelled, nullptr));
    return kExitSuccess;
  }
  ASSIGN_OR_RETURN(const model::Fidelity fidelity, check_model(arguments, profile, modelled));
  if (!path && !json) output.print("\n");
  output.print(json ? json_of(modelled, &fidelity)
                    : model::fidelity_text(fidelity, output.terminal()));
  return kExitSuccess;
}

Result<int> run_model(const Arguments& arguments, Output& output) {
  return with_ranks([&](comm::Comm& comm) { return model_with(arguments, output, comm); });
}

std::vector<Option> options() {
  const std::vector<Option> own = {
      output_option(ValueKind::kFile, "file to write (standard output)"),
      {.name = "name",
       .value = "NAME",
       .help = "name of the workload and its folders (from the command of the job)"},
      {.name = "check", .help = "run the workload, trace it, and compare it with the job"},
      {.name = "scale",
       .value = "FACTOR",
       .help = "with --check: run a smaller workload, for example 0.01",
       .check = check_scale,
       .needs = "check"},
      {.name = "scratch",
       .value = "DIR",
       .help = "with --check: where its dataset goes for the time of the run ($TMPDIR or /tmp)",
       .kind = ValueKind::kDirectory,
       .needs = "check"},
      json_option(),
  };
  return joined({own, input_options()});
}

}  // namespace

Command model_command() {
  Positional traces = traces_positional();
  traces.help = "a trace, or a profile saved by `report --json`";
  return {
      .name = "model",
      .summary = "the workload of a trace, for `millrace bench`",
      .description =
          "Writes a workload file whose I/O is that of a traced job: the format, number and sizes "
          "of its files, the order of its reads, batches, workers, compute times, epochs, "
          "evaluations and checkpoints. Each value has a comment that says what it was derived "
          "from. The head of the file lists what was assumed, and what is not modelled.\n\n"
          "With --check, the workload is generated and run under the tracer, and a table compares "
          "sizes, latencies, order, waiting and step times with those of the job. A ratio of 1 is "
          "a perfect model. Latencies depend on the storage: use --scratch to choose it.\n\n"
          "Steps, batches and workers are known only if the trace has regions. Trace a Python job "
          "with `python -m millrace.trace`.",
      .options = options(),
      .positionals = {std::move(traces)},
      .examples = {{"millrace model t/ -o workload.yaml", "the workload of the job in t/"},
                   {"millrace model t/ -o workload.yaml --check", "and how close it comes"},
                   {"millrace model t/ --check --scale 0.01 --scratch /lustre/tmp",
                    "check a hundredth of a large dataset, on the storage of the job"}},
      .run = run_model,
  };
}

}  // namespace millrace::cli
