#include "advise/findings_json.h"

namespace millrace::advise {
namespace {

constexpr int kVersion = 1;

void begin_document(JsonWriter& json) {
  json.begin_object();
  json.field("format", "millrace-advice");
  json.field("version", kVersion);
}

void write_findings(JsonWriter& json, const std::vector<Finding>& findings);

void write_gain(JsonWriter& json, std::string_view key, const Gain& gain) {
  json.key(key);
  json.begin_object();
  json.field("saved_ns", gain.saved_ns);
  json.field("share", gain.share);
  json.field("of", gain.of_training ? "training time" : "wall time");
  json.field("how", gain.how);
  json.end_object();
}

void write_finding(JsonWriter& json, const Finding& finding) {
  json.begin_object();
  json.field("rule", finding.rule);
  json.field("severity", kSeverityNames[static_cast<size_t>(finding.severity)]);
  json.field("title", finding.title());
  json.key("evidence");
  json.begin_list();
  for (const Evidence& evidence : finding.evidence) {
    json.begin_object();
    json.field("text", evidence.text);
    json.field("where", evidence.where);
    json.end_object();
  }
  json.end_list();
  json.field("threshold", finding.threshold);
  json.key("changes");
  json.begin_list();
  for (const Change& change : finding.changes) {
    json.begin_object();
    json.field("framework", change.framework);
    json.field("text", change.text);
    json.end_object();
  }
  json.end_list();
  write_gain(json, "gain", finding.gain);
  if (finding.tried) write_gain(json, "tried", *finding.tried);
  if (!finding.also.empty()) {
    json.key("also");
    write_findings(json, finding.also);
  }
  json.end_object();
}

void write_findings(JsonWriter& json, const std::vector<Finding>& findings) {
  json.begin_list();
  for (const Finding& finding : findings) write_finding(json, finding);
  json.end_list();
}

void write_machine(JsonWriter& json, const Machine& machine) {
  json.begin_object();
  if (machine.cores) json.field("cores", *machine.cores);
  if (machine.memory_bytes) json.field("memory_bytes", *machine.memory_bytes);
  if (machine.local_disk_bytes) json.field("local_disk_bytes", *machine.local_disk_bytes);
  json.field("data_storage", kStorageNames[static_cast<size_t>(machine.data_storage)]);
  json.field("checkpoint_storage", kStorageNames[static_cast<size_t>(machine.checkpoint_storage)]);
  json.field("data_file_system", machine.data_file_system);
  json.end_object();
}

}  // namespace

void write_advice(JsonWriter& json, const Verdict& verdict, const std::vector<Finding>& findings) {
  json.key("verdict");
  json.begin_object();
  json.field("answer", kAnswerNames[static_cast<size_t>(verdict.answer)]);
  json.field("sentence", verdict.sentence);
  json.end_object();
  json.key("findings");
  write_findings(json, findings);
}

std::string findings_json(const Verdict& verdict, const std::vector<Finding>& findings,
                          const Machine& machine, const Trial* trial) {
  JsonWriter json;
  begin_document(json);
  json.key("machine");
  write_machine(json, machine);
  write_advice(json, verdict, findings);
  if (trial != nullptr) {
    json.key("tried");
    write_trial(json, *trial);
  }
  json.end_object();
  return std::move(json).finish();
}

std::string rules_json() {
  JsonWriter json;
  begin_document(json);
  json.key("rules");
  json.begin_list();
  for (const Rule& rule : rules()) {
    json.begin_object();
    json.field("name", rule.name);
    json.field("summary", rule.summary);
    json.end_object();
  }
  json.end_list();
  json.end_object();
  return std::move(json).finish();
}

}  // namespace millrace::advise
