#include "interop/interop.h"

#include <fmt/core.h>

#include "base/text/units.h"

namespace millrace::interop {
namespace {

constexpr Exporter kExporters[] = {
    {"perfetto", "", &export_perfetto},
    {"pfw", ".pfw", &export_pfw},
    {"chrome", "", &export_chrome},
    {"csv", "", &export_csv},
};

Result<const Exporter*> find_exporter(std::string_view format) {
  std::string known;
  for (const Exporter& exporter : kExporters) {
    if (exporter.name == format) return &exporter;
    known += known.empty() ? "" : ", ";
    known += exporter.name;
  }
  return fail(Errc::kInvalidArgument, "unknown export format '{}'; the formats are {}", format,
              known);
}

Status check_ending(const Exporter& exporter, const std::string& path) {
  const std::string ending(exporter.ending);
  if (path.ends_with(ending) || path.ends_with(ending + ".gz")) return {};
  return fail(Errc::kInvalidArgument,
              "{}: tools that read {} files expect names that end in {} or {}.gz; choose such a "
              "name",
              path, exporter.name, ending, ending);
}

// Warns if the trace itself is incomplete, so that nobody takes the export for the whole.
void warn_of_losses(const trace::Trace& trace, ExportReport& report) {
  uint64_t events = 0;
  for (const trace::LostEvents& loss : trace.losses()) events += loss.events;
  if (events != 0) {
    report.warnings.push_back(fmt::format(
        "{} events were lost while recording and are not in the export", format_exact(events)));
  }
}

}  // namespace

std::span<const Exporter> exporters() { return kExporters; }

Result<ExportReport> export_trace(const trace::Trace& trace, std::string_view format,
                                  const Selection& selection, const std::string& path) {
  ASSIGN_OR_RETURN(const Exporter* exporter, find_exporter(format));
  RETURN_IF_ERROR(check_ending(*exporter, path));
  ASSIGN_OR_RETURN(Sink sink, Sink::create(path));
  ExportReport report;
  RETURN_IF_ERROR(exporter->run(trace, selection, sink, report));
  RETURN_IF_ERROR(sink.finish());
  report.size_bytes = sink.written_bytes();
  warn_of_losses(trace, report);
  return report;
}

}  // namespace millrace::interop
