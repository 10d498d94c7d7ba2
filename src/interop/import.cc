#include "interop/pfw/import.h"

#include <fmt/core.h>

#include <limits>

#include "interop/interop.h"
#include "interop/line_source.h"

namespace millrace::interop {
namespace {

// The earliest time in the first lines of a file, where its start event is. The maximum if there is
// none.
Result<int64_t> first_time(const std::string& path) {
  ASSIGN_OR_RETURN(LineSource source, LineSource::open(path));
  ASSIGN_OR_RETURN(std::string_view lines, source.next().within(path));
  uint64_t ns_per_unit = 1000;
  int64_t earliest = std::numeric_limits<int64_t>::max();
  PfwLine line;
  while (!lines.empty()) {
    const size_t newline = lines.find('\n');
    const std::string_view text = lines.substr(0, newline);
    lines.remove_prefix(newline == std::string_view::npos ? lines.size() : newline + 1);
    if (!scan_pfw_line(text, line)) continue;
    const PfwValue* value = line.argument("value");
    if (line.name.raw == "CM" && value != nullptr) ns_per_unit = pfw_unit_ns(value->raw);
    uint64_t wall_ns = 0;
    if (!line.is_metadata() && to_nanoseconds(line.time, ns_per_unit, wall_ns) &&
        wall_ns < static_cast<uint64_t>(earliest)) {
      earliest = static_cast<int64_t>(wall_ns);
    }
  }
  return earliest;
}

Status import_file(const std::string& path, PfwImport& import, ImportReport& report) {
  ASSIGN_OR_RETURN(LineSource source, LineSource::open(path));
  const uint64_t before = import.event_count();
  import.begin_file(path);
  while (true) {
    ASSIGN_OR_RETURN(const std::string_view lines, source.next().within(path));
    if (lines.empty()) break;
    RETURN_IF_ERROR(import.take(lines, !lines.ends_with('\n')));
  }
  if (!source.problem().empty()) {
    report.warnings.push_back(fmt::format("{}: {}", path, source.problem()));
  } else if (import.event_count() == before) {
    report.warnings.push_back(fmt::format("{}: contains no events", path));
  }
  report.text_bytes += source.text_bytes();
  ++report.file_count;
  return {};
}

// One pass over all files. `earliest_wall_ns` shows whether the origin was early enough.
Result<ImportReport> import_with_origin(const std::vector<std::string>& files,
                                        const std::string& path, int64_t origin_wall_ns,
                                        int64_t& earliest_wall_ns) {
  ASSIGN_OR_RETURN(trace::TraceWriter writer, trace::TraceWriter::create(path, origin_wall_ns));
  PfwImport import(writer, origin_wall_ns);
  ImportReport report;
  for (const std::string& file : files) RETURN_IF_ERROR(import_file(file, import, report));
  RETURN_IF_ERROR(import.finish());
  earliest_wall_ns = import.earliest_wall_ns();
  if (earliest_wall_ns < origin_wall_ns) return report;  // the caller tries again
  RETURN_IF_ERROR(writer.finish());
  report.event_count = import.event_count();
  report.process_count = import.process_count();
  for (std::string& warning : import.warnings()) report.warnings.push_back(std::move(warning));
  return report;
}

}  // namespace

Result<ImportReport> import_pfw(const std::vector<std::string>& files, const std::string& path) {
  int64_t origin_wall_ns = std::numeric_limits<int64_t>::max();
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const int64_t first, first_time(file));
    origin_wall_ns = std::min(origin_wall_ns, first);
  }
  if (origin_wall_ns == std::numeric_limits<int64_t>::max()) origin_wall_ns = 0;
  // A long region may have begun before everything at the head of its file. Then all files are read
  // again with the right origin. That is rare, and simpler than holding a job in memory.
  int64_t earliest_wall_ns = origin_wall_ns;
  ASSIGN_OR_RETURN(ImportReport report,
                   import_with_origin(files, path, origin_wall_ns, earliest_wall_ns));
  if (earliest_wall_ns < origin_wall_ns) {
    ASSIGN_OR_RETURN(report, import_with_origin(files, path, earliest_wall_ns, earliest_wall_ns));
  }
  return report;
}

}  // namespace millrace::interop
