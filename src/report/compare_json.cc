#include "base/text/json_writer.h"
#include "report/compare.h"
#include "report/compare_view.h"

namespace millrace::report {
namespace {

void put_job(JsonWriter& json, std::string_view key, const Compared& job) {
  json.key(key);
  json.begin_object();
  json.field("name", job.name);
  json.field("hosts", job.hosts);
  json.field("ranks", job.ranks);
  json.field("epochs", job.epochs);
  json.field("steps", job.steps);
  json.field("units", job.units);
  json.field("wall_ns", job.wall_ns);
  json.field("wait_share", job.wait_share);
  json.end_object();
}

void put_difference(JsonWriter& json, const Difference& one) {
  json.begin_object(JsonLayout::kOneLine);
  json.field("by", kByNames[static_cast<size_t>(one.by)]);
  json.field("name", one.name);
  json.field("measure", one.measure);
  json.field("unit", kQuantityNames[static_cast<size_t>(one.quantity)]);
  json.field("change", kChangeNames[static_cast<size_t>(one.change)]);
  json.field("before", one.before);
  json.field("after", one.after);
  json.key("relative");
  if (const auto relative = one.relative()) {
    json.value(*relative);
  } else {
    json.null();
  }
  json.field("effect_ns", one.effect_ns);
  json.field("regression", one.regression);
  json.end_object();
}

}  // namespace

std::vector<std::vector<Difference>> subjects_of(const Comparison& comparison,
                                                 std::optional<By> by) {
  std::vector<std::vector<Difference>> subjects;
  for (const Difference& one : comparison.differences) {
    // The job is always shown, as the reference for the rest.
    if (by ? one.by != *by && one.by != By::kJob : one.minor) continue;
    const bool same = !subjects.empty() && subjects.back().front().by == one.by &&
                      subjects.back().front().name == one.name;
    if (!same) subjects.emplace_back();
    subjects.back().push_back(one);
  }
  return subjects;
}

std::string compare_json(const Comparison& comparison, const CompareView& view) {
  JsonWriter json;
  json.begin_object();
  json.field("format", "millrace-comparison");
  json.field("version", 1);
  put_job(json, "before", comparison.before);
  put_job(json, "after", comparison.after);
  json.field("per", kPerNames[static_cast<size_t>(comparison.per)]);
  json.field("threshold", comparison.threshold);
  json.field("strict", comparison.strict);
  json.field("baselines", static_cast<uint64_t>(comparison.baselines));
  json.field("regressions", comparison.regression_count());
  json.key("differences");
  json.begin_list();
  auto subjects = subjects_of(comparison, view.by);
  if (view.top != 0 && subjects.size() > view.top) subjects.resize(view.top);
  for (const auto& subject : subjects) {
    for (const Difference& one : subject) put_difference(json, one);
  }
  json.end_list();
  json.key("notes");
  json.begin_list();
  for (const std::string& note : comparison.notes) json.value(note);
  json.end_list();
  json.end_object();
  return std::move(json).finish();
}

}  // namespace millrace::report
