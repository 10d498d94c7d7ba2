// The verb `compare`: what changed between two jobs, for people and for CI.
#include "report/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/text/text.h"
#include "cli/options/inputs.h"
#include "cli/verbs.h"

namespace millrace::cli {
namespace {

template <typename Number>
Result<Number> parse_number(std::string_view text, std::string_view what) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && !text.empty()) return number;
  return fail(Errc::kInvalidArgument, "'{}' is not {}", printable(text), what);
}

// Rejects a bare number: 10 could mean a factor of ten or 10 %.
Result<double> parse_threshold(std::string_view text) {
  constexpr std::string_view kWhat = "a percentage, for example 10% or 2.5%";
  std::string_view digits = text;
  if (!digits.ends_with('%'))
    return fail(Errc::kInvalidArgument, "'{}' is not {}", printable(text), kWhat);
  digits.remove_suffix(1);
  if (digits.ends_with(' ')) digits.remove_suffix(1);
  ASSIGN_OR_RETURN(const double percent, parse_number<double>(digits, kWhat));
  if (!(percent >= 0 && percent <= 1e6)) {
    return fail(Errc::kInvalidArgument, "'{}' is not {}", printable(text), kWhat);
  }
  return percent / 100;
}

Status check_threshold(std::string_view text) {
  RETURN_IF_ERROR(parse_threshold(text));
  return {};
}

Status check_top(std::string_view text) {
  RETURN_IF_ERROR(parse_number<size_t>(text, "a whole number"));
  return {};
}

template <typename Enum, size_t count>
Enum choice(std::string_view word, const std::string_view (&names)[count]) {
  const auto at = std::find(std::begin(names), std::end(names), word);
  return static_cast<Enum>(at - std::begin(names));
}

// Names a saved profile by the path given here, not by the trace it came from.
Result<analyze::Profile> named_profile_at(const std::string& path, const Arguments& arguments,
                                          comm::Comm& comm) {
  ASSIGN_OR_RETURN(analyze::Profile profile, profile_at(path, arguments, comm));
  profile.job.traces = {path};
  return profile;
}

Result<int> compare_with(const Arguments& arguments, Output& output, comm::Comm& comm) {
  report::CompareOptions options{.strict = arguments.has("strict")};
  if (const auto text = arguments.value("threshold")) {
    ASSIGN_OR_RETURN(options.threshold, parse_threshold(*text));
  }
  if (const auto word = arguments.value("per")) {
    options.per = choice<report::Per>(*word, report::kPerNames);
  }
  report::CompareView view;
  if (const auto word = arguments.value("by")) {
    view.by = choice<report::By>(*word, report::kByNames);
  }
  if (const auto text = arguments.value("top")) {
    ASSIGN_OR_RETURN(view.top, parse_number<size_t>(*text, "a whole number"));
  }
  const auto& paths = arguments.positionals();
  std::vector<analyze::Profile> jobs;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(analyze::Profile job, named_profile_at(path, arguments, comm));
    jobs.push_back(std::move(job));
  }
  if (comm.rank() != comm::kFirstRank) return kExitSuccess;
  for (const analyze::Profile& job : jobs) warn_of(job.problems);
  const analyze::Profile after = std::move(jobs.back());
  jobs.pop_back();
  const report::Comparison comparison = report::compare_with_baselines(jobs, after, options);
  output.print(arguments.has("json") ? report::compare_json(comparison, view)
                                     : report::compare_text(comparison, view, output.terminal()));
  return comparison.regression_count() == 0 ? kExitSuccess : kExitFailure;
}

std::vector<Option> options() {
  std::vector<Option> all = {
      {.name = "threshold",
       .value = "PERCENT",
       .help = "ignore changes smaller than this (10%)",
       .check = check_threshold},
      {.name = "per",
       .value = "UNIT",
       .help = "unit of comparison (default: the first of step, epoch, job that both jobs have)",
       .choices = {"step", "epoch", "gigabyte", "job"}},
      {.name = "by",
       .value = "WHAT",
       .help = "show only the job and this dimension, with minor differences",
       .choices = {"function", "layer", "kind", "extension", "rank", "epoch"}},
      {.name = "top",
       .value = "N",
       .help = "show the N entries with the largest effect; 0 shows all (20)",
       .check = check_top},
      {.name = "strict",
       .help = "everything that became worse is a regression, even if it costs no time"},
      json_option(),
  };
  // Without the options that select a part of a trace: a saved profile cannot apply them.
  for (Option& option : input_options()) {
    if (option.name == "role" || option.name == "threads") all.push_back(std::move(option));
  }
  return all;
}

Result<int> run_compare(const Arguments& arguments, Output& output) {
  return with_ranks([&](comm::Comm& comm) { return compare_with(arguments, output, comm); });
}

}  // namespace

Command compare_command() {
  return {
      .name = "compare",
      .summary = "what became slower, faster, more, fewer, new or gone between two jobs",
      .description =
          "Compares two jobs: the wall time and how it was spent, steps, layers, functions, kinds "
          "of files, ranks and epochs. Jobs of different lengths and sizes are compared per step "
          "or epoch, and per rank. Differences are sorted by their effect on the wall time. The "
          "effect is an estimate: I/O that overlaps with compute costs nothing.\n\n"
          "A regression is a longer wall time, or more waiting for data or checkpoints, by at least "
          "the threshold, 1 % of the wall time and 10 ms, unless the whole job became faster. The "
          "rest explains it. With several baselines, a regression is one against each of them, so "
          "that what varies between them does not count. For use in CI, the exit code is 0 without and 1 "
          "with regressions, and 2 for wrong usage. It is also 1 if a job cannot be read; then "
          "nothing is printed, and standard error has the reason.\n\n"
          "A job is a trace (a directory or a *.mrt file) or a profile saved by `millrace report "
          "--json`. A profile is small and fast to read: keep one as the baseline.",
      .options = options(),
      .positionals = {{.name = "BEFORE",
                       .help = "the baseline: a trace or a saved profile",
                       .kind = ValueKind::kFile},
                      {.name = "AFTER",
                       .help = "the job to judge; those before it are further baselines",
                       .kind = ValueKind::kFile,
                       .repeatable = true}},
      .examples = {{"millrace compare old/ new/", "what changed"},
                   {"millrace compare --threshold 5% baseline.json new/",
                    "in CI: fails if something became slower by 5 %"},
                   {"millrace compare run1.json run2.json run3.json new/",
                    "three runs of the baseline show the noise"},
                   {"millrace compare --by rank old/ new/", "compare each rank with itself"}},
      .run = run_compare,
  };
}

}  // namespace millrace::cli
