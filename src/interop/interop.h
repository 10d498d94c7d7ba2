// interop: other tools' traces: ours written for them, theirs read.
//
// An exporter turns the events of a Trace into one file of another format: it streams, so that its
// memory does not grow with the trace, and leaves out no event that was selected without saying so.
// The importer turns files of another tool into one packed trace. What each format holds, and which
// column goes where, is in docs/formats/exports.md.
//
// Nothing here prints; what a user should know comes back as sentences in `warnings`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "interop/selection.h"
#include "interop/sink.h"
#include "trace/trace.h"

namespace millrace::interop {

struct ExportReport {
  uint64_t event_count = 0;
  uint64_t size_bytes = 0;  // of the file
  std::vector<std::string> warnings;
};

// One format to export to. A new one is a file with such a function and a line in interop.cc.
struct Exporter {
  std::string_view name;    // as --to takes it
  std::string_view ending;  // the file's name must end so, or so and .gz; empty: anything
  Status (*run)(const trace::Trace& trace, const Selection& selection, Sink& sink,
                ExportReport& report);
};

std::span<const Exporter> exporters();

// Writes the selected events to `path`, compressed where the name ends in .gz. The file appears
// whole or not at all. `format` is an exporter's name.
Result<ExportReport> export_trace(const trace::Trace& trace, std::string_view format,
                                  const Selection& selection, const std::string& path);

// The exporters, one a file.
Status export_perfetto(const trace::Trace& trace, const Selection& selection, Sink& sink,
                       ExportReport& report);
// The same with windows of about so many events, which is what it holds in memory.
Status export_perfetto_in_windows(const trace::Trace& trace, const Selection& selection, Sink& sink,
                                  ExportReport& report, uint64_t window_events);
Status export_pfw(const trace::Trace& trace, const Selection& selection, Sink& sink,
                  ExportReport& report);
Status export_chrome(const trace::Trace& trace, const Selection& selection, Sink& sink,
                     ExportReport& report);
Status export_csv(const trace::Trace& trace, const Selection& selection, Sink& sink,
                  ExportReport& report);

struct ImportReport {
  uint64_t event_count = 0;
  uint64_t file_count = 0;
  uint64_t process_count = 0;
  uint64_t text_bytes = 0;  // of JSON, after decompression
  std::vector<std::string> warnings;
};

// Reads DFTracer's .pfw and .pfw.gz files of both generations into one packed trace at `path`.
Result<ImportReport> import_pfw(const std::vector<std::string>& files, const std::string& path);

}  // namespace millrace::interop
