// interop: writes traces for other tools and reads theirs.
//
// An exporter writes the events of a Trace to one file in another format. It streams, so its memory
// does not grow with the trace. If it leaves out a selected event, it says so. The importer turns
// files of another tool into one packed trace. docs/formats/exports.md describes the formats and
// which column goes where.
//
// Nothing here prints. What a user should know is returned as sentences in `warnings`.
#pragma once

#include <cstdint>
#include <functional>
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

// An export format. To add one, write a file with such a function and add a line in interop.cc.
struct Exporter {
  std::string_view name;    // the value of --to
  std::string_view ending;  // the file name must end in this, or this and .gz; empty: anything
  Status (*run)(const trace::Trace& trace, const Selection& selection, Sink& sink,
                ExportReport& report);
};

std::span<const Exporter> exporters();

// Writes the selected events to `path`, compressed if the name ends in .gz. The file appears
// complete or not at all. `format` is the name of an exporter.
Result<ExportReport> export_trace(const trace::Trace& trace, std::string_view format,
                                  const Selection& selection, const std::string& path);

// The exporters, one per file.
Status export_perfetto(const trace::Trace& trace, const Selection& selection, Sink& sink,
                       ExportReport& report);
// The same with windows of about this many events, which it holds in memory.
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

// Imports .pfw and .pfw.gz files of both DFTracer generations into one packed trace at `path`.
Result<ImportReport> import_pfw(const std::vector<std::string>& files, const std::string& path);

// Imports what the GPU did from traces of torch.profiler, .json and .json.gz, one per process.
// `host_of` may know the host of a pid; empty: unknown.
using HostOfProcess = std::function<std::string(uint32_t pid)>;
Result<ImportReport> import_kineto(const std::vector<std::string>& files, const std::string& path,
                                   const HostOfProcess& host_of = {});

}  // namespace millrace::interop
