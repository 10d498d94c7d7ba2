#include "base/text/json_writer.h"
#include "trace/summary/summary.h"

namespace millrace::trace {
namespace {

void put_sessions(JsonWriter& json, const Trace& trace) {
  json.key("sessions");
  json.begin_list();
  for (const Session& session : trace.sessions()) {
    json.begin_object();
    json.field("host", session.host);
    json.field("boot_id", session.boot_id);
    json.field("launcher_pid", session.launcher_pid);
    json.key("levels");
    json.begin_list();
    for (size_t level = 1; level < wire::kLevelCount; ++level) {
      if ((session.levels >> level & 1) != 0) json.value(wire::kLevelNames[level]);
    }
    json.end_list();
    json.field("filters", session.filters);
    json.field("alignment", session.alignment);
    json.field("offset_ns", session.offset_ns);
    json.field("drift_ppm", session.drift_ppm);
    json.field("uncertainty_ns", session.uncertainty_ns);
    json.end_object();
  }
  json.end_list();
}

void put_processes(JsonWriter& json, const Trace& trace, const Summary& summary) {
  std::vector<uint64_t> thread_counts(trace.processes().size());
  for (const Thread& thread : trace.threads()) ++thread_counts[static_cast<size_t>(thread.process)];
  json.key("processes");
  json.begin_list();
  for (size_t i = 0; i < trace.processes().size(); ++i) {
    const Process& process = trace.processes()[i];
    json.begin_object();
    json.field("session", process.session);
    json.field("pid", process.pid);
    json.field("parent_pid", process.parent_pid);
    json.field("rank", process.rank);
    json.field("world_size", process.world_size);
    json.field("origin", process.origin == wire::ProcessOrigin::kFork ? "fork" : "program");
    json.field("start_ns", process.start_ns);
    json.field("end_ns", process.end_ns);
    json.field("exited", process.exited);
    json.field("exit_code", process.exit_code);
    json.field("executable", trace.name(process.executable));
    json.field("command", trace.name(process.command_line));
    json.field("working_directory", trace.name(process.working_directory));
    json.field("events", summary.process_events[i]);
    json.field("threads", thread_counts[i]);
    json.field("major_faults", process.major_faults);
    json.field("minor_faults", process.minor_faults);
    json.end_object();
  }
  json.end_list();
}

void put_calls(JsonWriter& json, const Summary& summary) {
  json.key("calls");
  json.begin_list();
  for (const auto& [call, totals] : summary.calls) {
    json.begin_object();
    json.field("level", level_name(wire::level_of(call)));
    json.field("call", call_name(call));
    json.field("events", totals.events);
    json.field("errors", totals.errors);
    json.field("duration_ns", totals.duration_ns);
    json.field("bytes", totals.bytes);
    json.end_object();
  }
  json.end_list();
}

void put_losses(JsonWriter& json, const Trace& trace) {
  json.key("losses");
  json.begin_list();
  for (const LostEvents& loss : trace.losses()) {
    json.begin_object();
    json.key("process");
    if (loss.process == kNoProcess) {
      json.null();
    } else {
      json.value(static_cast<uint32_t>(loss.process));
    }
    json.field("events", loss.events);
    json.field("names", loss.names);
    json.field("first_ns", loss.first_ns);
    json.field("last_ns", loss.last_ns);
    json.field("errno", loss.error);
    json.end_object();
  }
  json.end_list();
}

void put_not_itemised(JsonWriter& json, const NotItemised& rest) {
  json.key("not_itemised");
  json.begin_object();
  json.field("mmap_calls", rest.mmap_calls);
  json.field("mappings_ended", rest.mappings_ended);
  json.field("mapped_bytes", rest.mapped_bytes);
  json.field("mapped_present_bytes", rest.mapped_present_bytes);
  json.field("io_uring_setups", rest.io_uring_setups);
  json.field("io_uring_enters", rest.io_uring_enters);
  json.field("major_faults", rest.major_faults);
  json.field("minor_faults", rest.minor_faults);
  json.key("untraced_programs");
  json.begin_list();
  for (const UntracedProgram& program : rest.untraced) {
    json.begin_object();
    json.field("path", program.path);
    json.field("times", program.times);
    json.field("why", program.why);
    json.end_object();
  }
  json.end_list();
  json.key("sandboxed_processes");
  json.begin_list();
  for (const ProcessIndex process : rest.sandboxed) json.value(static_cast<uint32_t>(process));
  json.end_list();
  json.end_object();
}

}  // namespace

std::string summary_json(const Trace& trace, const Summary& summary) {
  JsonWriter json;
  json.begin_object();
  json.field("format", "millrace-info");
  json.field("version", 1);
  json.field("origin_wall_ns", trace.origin_wall_ns());
  json.field("begin_ns", summary.begin_ns);
  json.field("end_ns", summary.end_ns);
  json.field("events", summary.events);
  json.field("files", summary.files);
  json.field("threads", trace.threads().size());
  json.key("hosts");
  json.begin_list();
  for (const std::string& host : summary.hosts) json.value(host);
  json.end_list();
  json.key("ranks");
  json.begin_list();
  for (const int32_t rank : summary.ranks) json.value(rank);
  json.end_list();
  put_sessions(json, trace);
  put_processes(json, trace, summary);
  put_calls(json, summary);
  put_losses(json, trace);
  put_not_itemised(json, summary.not_itemised);
  json.key("problems");
  json.begin_list();
  for (const std::string& problem : summary.problems) json.value(problem);
  json.end_list();
  json.end_object();
  return std::move(json).finish();
}

}  // namespace millrace::trace
