// import_kineto: the GPU's part of torch.profiler's traces as regions `device` and `device_copy`.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/text/units.h"
#include "interop/import_columns.h"
#include "interop/interop.h"
#include "interop/kineto.h"
#include "interop/line_source.h"
#include "wire/trace_session.h"

namespace millrace::interop {
namespace {

Result<std::string> read_whole_text(const std::string& path, ImportReport& report) {
  ASSIGN_OR_RETURN(LineSource source, LineSource::open(path));
  std::string text;
  while (true) {
    ASSIGN_OR_RETURN(const std::string_view lines, source.next().within(path));
    if (lines.empty()) break;
    text += lines;
  }
  if (!source.problem().empty()) report.warnings.push_back(path + ": " + source.problem());
  report.text_bytes += source.text_bytes();
  ++report.file_count;
  return text;
}

// A stream of a device as the thread of a process.
uint32_t stream_thread(const KinetoEvent& event) {
  return static_cast<uint32_t>(event.device % 1000 * 1000 + event.stream % 1000);
}

// REQUIRES: it has events.
trace::Process profiled_process(const KinetoTrace& read, uint32_t session, uint64_t origin_ns) {
  trace::Process process;
  process.session = session;
  process.pid = static_cast<uint32_t>(read.pid);
  // Its own parent: it adds to the process with this pid, of whichever recording.
  process.parent_pid = process.pid;
  process.start_ns = read.events.front().wall_ns - origin_ns;
  process.rank = static_cast<int32_t>(read.rank);
  process.world_size = static_cast<int32_t>(read.world_size);
  return process;
}

class KinetoImport {
 public:
  KinetoImport(trace::TraceWriter& writer, int64_t origin_wall_ns, const std::string& host)
      : writer_(writer),
        origin_ns_(static_cast<uint64_t>(origin_wall_ns)),
        columns_(writer, [](size_t, trace::Process&) {}),
        device_(writer.add_name("device")),
        device_copy_(writer.add_name("device_copy")),
        kernel_key_(writer.add_name("kernel")),
        bytes_key_(writer.add_name("bytes")) {
    trace::Session session;
    session.host = host;
    session.levels = 1u << static_cast<unsigned>(wire::Level::kApp);
    session.alignment = "wall clock";
    session_ = writer.add_session(session);
  }

  Status add(const KinetoTrace& read) {
    const size_t process = columns_.add_process();
    columns_.process(process) = profiled_process(read, session_, origin_ns_);
    columns_.process(process).command_line = writer_.add_name("torch.profiler");
    std::string storage;
    for (const KinetoEvent& event : read.events) {
      trace::RegionTag tags[2] = {};
      tags[0] = {.key = kernel_key_,
                 .kind = wire::TagKind::kText,
                 .value = static_cast<uint64_t>(writer_.add_name(event.name.text(storage)))};
      tags[1] = {.key = bytes_key_, .kind = wire::TagKind::kInteger, .value = event.size_bytes};
      Event made;
      made.begin_ns = event.wall_ns - origin_ns_;
      // A region without a duration would be a mark.
      made.end_ns = made.begin_ns + std::max<uint64_t>(event.duration_ns, 1);
      made.call = wire::Call::kRegion;
      made.file = event.is_copy ? device_copy_ : device_;
      made.size = wire::kNoEpoch;
      made.offset = wire::kNoStep;
      made.tags = std::span(tags).first(event.size_bytes > 0 ? 2 : 1);
      RETURN_IF_ERROR(columns_.add(process, stream_thread(event), made));
    }
    return {};
  }

  Status finish() { return columns_.flush(); }

 private:
  trace::TraceWriter& writer_;
  const uint64_t origin_ns_;
  ImportColumns columns_;
  trace::NameIndex device_, device_copy_, kernel_key_, bytes_key_;
  uint32_t session_ = 0;
};

}  // namespace

Result<ImportReport> import_kineto(const std::vector<std::string>& files, const std::string& path,
                                   const HostOfProcess& host_of) {
  ImportReport report;
  std::vector<std::string> texts;  // the traces point into them
  std::vector<KinetoTrace> traces;
  texts.reserve(files.size());
  uint64_t earliest_ns = std::numeric_limits<int64_t>::max();
  std::string host;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(std::string text, read_whole_text(file, report));
    texts.push_back(std::move(text));
    ASSIGN_OR_RETURN(KinetoTrace read, parse_kineto(texts.back()).within(file));
    if (read.events.empty()) {
      report.warnings.push_back(
          fmt::format("{}: no work of a GPU among {} events; profile with ProfilerActivity.CUDA",
                      file, format_exact(read.other_events)));
    }
    for (const KinetoEvent& event : read.events) earliest_ns = std::min(earliest_ns, event.wall_ns);
    if (host.empty() && host_of) host = host_of(static_cast<uint32_t>(read.pid));
    report.event_count += read.events.size();
    report.process_count += read.events.empty() ? 0 : 1;
    traces.push_back(std::move(read));
  }
  const auto origin_ns = report.event_count > 0 ? static_cast<int64_t>(earliest_ns) : int64_t{0};
  ASSIGN_OR_RETURN(trace::TraceWriter writer, trace::TraceWriter::create(path, origin_ns));
  KinetoImport import(writer, origin_ns, host);
  for (const KinetoTrace& read : traces) {
    if (!read.events.empty()) RETURN_IF_ERROR(import.add(read));
  }
  RETURN_IF_ERROR(import.finish());
  RETURN_IF_ERROR(writer.finish());
  return report;
}

}  // namespace millrace::interop
