// The verb `export`: writes a trace in the format of another tool.
#include <fmt/core.h>

#include "analyze/calls/folded.h"
#include "base/io/atomic_file.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/options/inputs.h"
#include "cli/options/part_options.h"
#include "cli/verbs.h"
#include "interop/interop.h"

namespace millrace::cli {
namespace {

Status check_levels(std::string_view text) {
  RETURN_IF_ERROR(interop::parse_levels(text));
  return {};
}

constexpr std::string_view kFolded = "folded";  // of a profile, not of events

Status check_export(const Arguments& arguments) {
  if (arguments.value("to") != kFolded || !arguments.has("levels")) return {};
  return fail(Errc::kInvalidArgument, "--levels is for formats of events, not for --to folded");
}

std::vector<std::string> format_names() {
  std::vector<std::string> names = {std::string(kFolded)};
  for (const interop::Exporter& exporter : interop::exporters()) {
    names.emplace_back(exporter.name);
  }
  return names;
}

Result<interop::Selection> selection_of(const Arguments& arguments) {
  ASSIGN_OR_RETURN(interop::Selection selection, part_of(arguments));
  if (const auto levels = arguments.value("levels")) {
    ASSIGN_OR_RETURN(selection.levels, interop::parse_levels(*levels));
  }
  return selection;
}

void warn(std::string_view message) {
  fmt::print(stderr, "millrace: warning: {}\n", printable(message));
}

Result<int> export_folded(const Arguments& arguments, Output& output) {
  const std::string& title = arguments.positionals().front();
  const std::string path = *arguments.value("output");
  return with_ranks([&](comm::Comm& comm) -> Result<int> {
    ASSIGN_OR_RETURN(const ProfiledJob profiled,
                     profile_job({.title = title, .paths = {title}}, arguments, {}, comm));
    if (comm.rank() != comm::kFirstRank) return kExitSuccess;
    for (const std::string& problem : profiled.profile.problems) warn(problem);
    ASSIGN_OR_RETURN(interop::Sink sink, interop::Sink::create(path));
    RETURN_IF_ERROR(sink.append(analyze::folded_stacks(profiled.profile)));
    RETURN_IF_ERROR(sink.finish());
    if (is_standard_output(path)) return kExitSuccess;
    output.print(fmt::format("{}: {} of {} events\n", printable(path),
                             format_bytes(sink.written_bytes()),
                             format_exact(profiled.profile.job.events)));
    return kExitSuccess;
  });
}

Result<int> run_export(const Arguments& arguments, Output& output) {
  const auto format = arguments.value("to");
  const auto path = arguments.value("output");
  if (format == kFolded) return export_folded(arguments, output);
  ASSIGN_OR_RETURN(const interop::Selection selection, selection_of(arguments));
  ASSIGN_OR_RETURN(const trace::Trace trace, trace::Trace::open(arguments.positionals().front()));
  for (const std::string& problem : trace.problems()) warn(problem);
  ASSIGN_OR_RETURN(const interop::ExportReport report,
                   interop::export_trace(trace, *format, selection, *path));
  for (const std::string& warning : report.warnings) warn(warning);
  if (is_standard_output(*path)) return kExitSuccess;  // a message would become part of the output
  output.print(fmt::format("{}: {} of {} events, {}\n", printable(*path),
                           format_exact(report.event_count), format_exact(trace.event_count()),
                           format_bytes(report.size_bytes)));
  return kExitSuccess;
}

}  // namespace

Command export_command() {
  const Option format{.name = "to",
                      .value = "FORMAT",
                      .help = "output format",
                      .choices = format_names(),
                      .required = true};
  const Option levels{.name = "levels",
                      .value = "LIST",
                      .help = "only these levels of posix,stdio,mpiio,hdf5,app",
                      .check = check_levels};
  return {
      .name = "export",
      .summary = "convert a trace for another tool: Perfetto, DFTracer, flame graphs, CSV",
      .description =
          "Writes the events of a trace for another tool. perfetto: slices with arguments on "
          "process and thread tracks, for ui.perfetto.dev. pfw: DFTracer's .pfw or .pfw.gz, for "
          "its tools; `millrace import` reads it back without loss. chrome: JSON for the Perfetto "
          "UI and chrome://tracing. csv: one row per event, for pandas, databases and "
          "spreadsheets. folded: the time of call stacks, for tools that draw flame graphs.\n\n"
          "A file whose name ends in .gz is compressed. A browser can show about ten million "
          "slices: select a part of a larger trace by time, rank or level. Times count from the "
          "first event of the trace; an event is included if any part of it is within the selected "
          "time.",
      .options = joined({{format, required(output_option(ValueKind::kFile, "output file"))},
                         part_options(),
                         {levels}}),
      .positionals = {{.name = "TRACE",
                       .help = "the directory of a trace, or one .mrt file",
                       .kind = ValueKind::kFile}},
      .examples = {{"millrace export t/ --to perfetto -o t.perfetto-trace", "for ui.perfetto.dev"},
                   {"millrace export t/ --to perfetto --from 10s --until 12s --ranks 0,3-5 -o "
                    "part.perfetto-trace",
                    "two seconds of four ranks"},
                   {"millrace export t/ --to pfw -o t.pfw.gz && dftracer_stats --files t.pfw.gz",
                    "for DFTracer's tools"},
                   {"millrace export t/ --to folded -o /dev/stdout | flamegraph.pl > t.svg",
                    "a flame graph"},
                   {"millrace export t/ --to csv --levels app -o regions.csv",
                    "the marked regions as a table"}},
      .check = check_export,
      .run = run_export,
  };
}

}  // namespace millrace::cli
