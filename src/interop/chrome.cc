// The exporter `chrome`: Trace Event JSON for the Perfetto UI and chrome://tracing.
//
// One complete event (ph X) per line. Viewers identify processes and threads by pid and tid, but
// the same pid may be another process on another host or after exec. Each process is therefore
// numbered by its index in the trace, and its name contains pid, rank and host. Times are in
// microseconds since the start of the trace with three decimals: a double cannot hold the wall time
// to the nanosecond.
#include <fmt/core.h>

#include "interop/describe.h"
#include "interop/encode_text.h"
#include "interop/interop.h"

namespace millrace::interop {
namespace {

void append_microseconds(std::string& out, uint64_t ns) {
  append_integer(out, ns / 1000);
  const uint64_t thousandths = ns % 1000;
  out += '.';
  out += static_cast<char>('0' + thousandths / 100);
  out += static_cast<char>('0' + thousandths / 10 % 10);
  out += static_cast<char>('0' + thousandths % 10);
}

// Names the process and thread tracks.
Status write_metadata(const trace::Trace& trace, Sink& sink) {
  const auto& processes = trace.processes();
  for (size_t i = 0; i < processes.size(); ++i) {
    std::string title;
    append_json_text(
        title, fmt::format("{} pid {}", process_title(trace, processes[i]), processes[i].pid));
    RETURN_IF_ERROR(sink.append(fmt::format(
        "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":{}}}}},\n", i + 1,
        title)));
    RETURN_IF_ERROR(sink.append(fmt::format(
        "{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{},\"args\":{{\"sort_index\":{}}}}},"
        "\n",
        i + 1, processes[i].rank)));
  }
  for (const trace::Thread& thread : trace.threads()) {
    RETURN_IF_ERROR(sink.append(fmt::format(
        "{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"thread "
        "{}\"}}}},\n",
        static_cast<uint64_t>(thread.process) + 1, thread.tid, thread.tid)));
  }
  return {};
}

class Arguments {
 public:
  explicit Arguments(std::string& out) : out_(out) {}

  std::string& member(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    out_ += '"';
    out_ += name;
    out_ += "\":";
    return out_;
  }

 private:
  std::string& out_;
  bool first_ = true;
};

void write_call_arguments(const trace::Trace& trace, const Event& event, Arguments& arguments) {
  if (event.file != trace::NameIndex{}) {
    append_json_text(arguments.member("file"), trace.name(event.file));
  }
  if (event.offset != wire::kNoOffset) append_integer(arguments.member("offset"), event.offset);
  if (event.size != 0) append_integer(arguments.member("size"), event.size);
  append_integer(arguments.member("result"), event.result);
  if (event.error != 0) append_json_text(arguments.member("errno"), error_name(event.error));
  if (event.other_file != trace::NameIndex{}) {
    append_json_text(arguments.member("other_file"), trace.name(event.other_file));
  }
  if (event.other_offset != wire::kNoOffset) {
    append_integer(arguments.member("other_offset"), event.other_offset);
  }
  if (event.detail != 0) append_integer(arguments.member("detail"), event.detail);
}

void write_event(const trace::Trace& trace, const Event& event, uint64_t start_ns,
                 std::string& out) {
  const trace::Thread& thread = trace.threads()[static_cast<size_t>(event.thread)];
  out += "{\"ph\":\"X\",\"name\":";
  append_json_text(out, event_name(trace, event));
  out += ",\"cat\":\"";
  out += level_name(event.call);
  out += "\",\"pid\":";
  append_integer(out, static_cast<uint64_t>(thread.process) + 1);
  out += ",\"tid\":";
  append_integer(out, thread.tid);
  out += ",\"ts\":";
  append_microseconds(out, event.begin_ns - start_ns);
  out += ",\"dur\":";
  append_microseconds(out, event.duration_ns());
  out += ",\"args\":{";
  Arguments arguments(out);
  if (event.is_region()) {
    if (event.size != wire::kNoEpoch) append_integer(arguments.member("epoch"), event.size);
    if (event.offset != wire::kNoStep) append_integer(arguments.member("step"), event.offset);
  } else {
    write_call_arguments(trace, event, arguments);
  }
  if (!event.tags.empty()) {
    arguments.member("tags") += '{';
    append_tags(trace, event.tags, out);
    out += '}';
  }
  out += "}}";
}

}  // namespace

Status export_chrome(const trace::Trace& trace, const Selection& selection, Sink& sink,
                     ExportReport& report) {
  const uint64_t start_ns = start_of(trace);
  RETURN_IF_ERROR(sink.append("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"));
  RETURN_IF_ERROR(write_metadata(trace, sink));
  RETURN_IF_ERROR(visit_events(trace, selection, [&](const Event& event) -> Status {
    write_event(trace, event, start_ns, sink.buffer());
    sink.buffer() += ",\n";
    ++report.event_count;
    return sink.flush_if_full();
  }));
  // JSON forbids a comma after the last item, so one more metadata entry ends the list.
  return sink.append(fmt::format(
      "{{\"ph\":\"M\",\"name\":\"trace_start\",\"pid\":0,\"args\":{{\"wall_ns\":{}}}}}\n]}}\n",
      trace.origin_wall_ns() + static_cast<int64_t>(start_ns)));
}

}  // namespace millrace::interop
