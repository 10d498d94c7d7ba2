#include "base/text/json_writer.h"
#include "watch/snapshot.h"

namespace millrace::watch {
namespace {

const char* state_name(JobState state) {
  switch (state) {
    case JobState::kWaiting:
      return "waiting";
    case JobState::kRunning:
      return "running";
    case JobState::kEnded:
      break;
  }
  return "ended";
}

template <typename Value>
void put_known(JsonWriter& json, const char* name, bool known, Value value) {
  json.field(name, known ? std::optional(value) : std::nullopt);
}

void put_waiting(JsonWriter& json, WaitingBy by, double share) {
  json.begin_object("waiting");
  put_known(json, "by", by != WaitingBy::kNothing, by == WaitingBy::kRegions ? "regions" : "io");
  put_known(json, "share", by != WaitingBy::kNothing, share);
  json.end_object();
}

void put_operations(JsonWriter& json, const char* name, const OperationKinds& kinds) {
  json.begin_object(name);
  const std::pair<const char*, const Operations*> all[] = {{"reads", &kinds.reads},
                                                           {"writes", &kinds.writes},
                                                           {"opens", &kinds.opens},
                                                           {"metadata", &kinds.metadata},
                                                           {"others", &kinds.others}};
  for (const auto& [kind, operations] : all) {
    json.begin_object(kind);
    json.field("count", operations->count);
    json.field("bytes", operations->bytes);
    json.field("duration_ns", operations->duration_ns);
    json.field("duration_max_ns", operations->duration_max_ns);
    json.end_object();
  }
  json.end_object();
}

void put_worker(JsonWriter& json, const Worker& worker) {
  put_known(json, "rank", worker.rank >= 0, worker.rank);
  json.field("pid", worker.pid);
  json.field("host", worker.host);
  json.field("command", worker.command);
  json.field("processes", worker.processes_running);
  put_known(json, "epoch", worker.has_epoch, worker.epoch);
  put_known(json, "step", worker.has_step, worker.step);
  json.field("calls", worker.operations.all().count);
  json.field("read_bytes", worker.operations.reads.bytes);
  json.field("written_bytes", worker.operations.writes.bytes);
  json.field("busy_ns", worker.busy_ns);
  put_waiting(json, worker.waiting_by, worker.waiting_share);
}

}  // namespace

std::string snapshot_json(const Snapshot& snapshot, const std::string& directory) {
  JsonWriter json;
  json.begin_object();
  json.field("format", "millrace-top");
  json.field("version", 1);
  json.field("directory", directory);
  json.field("state", state_name(snapshot.state));
  json.field("window_ns", snapshot.window_ns);
  json.field("elapsed_ns", snapshot.elapsed_ns);
  json.field("hosts", snapshot.hosts);
  json.field("processes", snapshot.processes);
  json.field("ranks", snapshot.ranks);
  put_known(json, "world_size", snapshot.world_size >= 0, snapshot.world_size);
  json.field("concurrency", snapshot.concurrency);
  put_waiting(json, snapshot.waiting_by, snapshot.waiting_share);
  put_operations(json, "window", snapshot.window);
  put_operations(json, "total", snapshot.total);
  json.objects("workers", snapshot.workers,
               [&](const Worker& worker) { put_worker(json, worker); });
  json.field("workers_left_out", snapshot.workers_more);
  json.objects("files", snapshot.files, [&](const FileUse& file) {
    json.field("path", file.path);
    json.field("calls", file.count);
    json.field("read_bytes", file.read_bytes);
    json.field("written_bytes", file.written_bytes);
    json.field("busy_ns", file.busy_ns);
  });
  json.field("lost_events", snapshot.lost_events);
  json.field("lost_processes", snapshot.lost_processes);
  json.values("problems", snapshot.problems);
  json.end_object();
  return std::move(json).finish();
}

}  // namespace millrace::watch
