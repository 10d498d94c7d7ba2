#include "advise/trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "advise/wording.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

constexpr size_t kIndentOfText = 10;

std::string shown(uint64_t time_ns) {
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(time_ns)));
}

double distance(uint64_t a, uint64_t b) {
  return std::abs(std::log(static_cast<double>(std::max<uint64_t>(a, 1)) /
                           static_cast<double>(std::max<uint64_t>(b, 1))));
}

struct Compared {
  uint64_t files_ns = 0;
  uint64_t store_ns = 0;
};

Compared compared(const analyze::Profile& profile, const Trial& trial) {
  const bool is_single = profile.job.epochs <= 1 && trial.store.cold_ns != 0;
  return {.files_ns = was_cold(trial) ? trial.files.cold_ns : trial.files.hot_ns,
          .store_ns = is_single ? trial.store.cold_ns : trial.store.hot_ns};
}

// "cold: 210 ms from the files, 95 ms from the store: 2.2 times as fast"
std::string line_of(std::string_view state, uint64_t files_ns, uint64_t store_ns) {
  return fmt::format("{}: {} from the files, {} from the store: {:.2g} times as fast", state,
                     shown(files_ns), shown(store_ns), ratio(files_ns, store_ns));
}

void write_times(JsonWriter& json, std::string_view key, const TriedTimes& times) {
  json.key(key);
  json.begin_object(JsonLayout::kOneLine);
  if (times.cold_ns != 0) json.field("cold_ns", times.cold_ns);
  json.field("hot_ns", times.hot_ns);
  json.end_object();
}

}  // namespace

bool was_cold(const Trial& trial) {
  return trial.files.cold_ns != 0 && distance(trial.recorded_ns, trial.files.cold_ns) <
                                         distance(trial.recorded_ns, trial.files.hot_ns);
}

Gain measured_gain(const analyze::Profile& profile, const Trial& trial) {
  const Waiting waiting = waiting_of(profile);
  const auto [files_ns, store_ns] = compared(profile, trial);
  const uint64_t less_ns = files_ns - std::min(files_ns, store_ns);
  return gain_of(
      waiting, waiting.due_to(scaled(waiting.calls_ns, ratio(less_ns, files_ns))),
      fmt::format("{} on {} took {} from the store, {} from the files",
                  counted(trial.call_count, "call", "calls"),
                  counted(trial.file_count, "file", "files"), shown(store_ns), shown(files_ns)));
}

size_t add_trial(const Trial& trial, std::vector<Finding>& findings) {
  size_t count = 0;
  for (Finding& finding : findings) {
    count += add_trial(trial, finding.also);
    const bool is_cured = std::any_of(finding.changes.begin(), finding.changes.end(),
                                      [](const Change& c) { return c.framework == "store"; });
    if (!is_cured) continue;
    finding.tried = trial.gain;
    ++count;
  }
  return count;
}

std::string trial_text(const Trial& trial, const Terminal& terminal) {
  const Gain& gain = trial.gain;
  std::vector<std::string> texts = {
      fmt::format("{} of {} in {}, of {} that the job read: {}, which took {} in the job",
                  counted(trial.file_count, "file", "files"), format_bytes(trial.size_bytes),
                  trial.directory, format_exact(trial.dataset_count),
                  counted(trial.call_count, "call", "calls"), shown(trial.recorded_ns))};
  if (trial.files.cold_ns != 0 && trial.store.cold_ns != 0) {
    texts.push_back(line_of("cold", trial.files.cold_ns, trial.store.cold_ns));
  }
  texts.push_back(line_of("hot", trial.files.hot_ns, trial.store.hot_ns));
  texts.push_back(
      gain.saved_ns == 0
          ? "millrace store would save nothing of the job's time"
          : fmt::format("millrace store would save {}, {}: the calls of the job were more like {} "
                        "ones",
                        shown(gain.saved_ns), part_text(gain.share, gain.of_training),
                        was_cold(trial) ? "cold" : "hot"));
  texts.insert(texts.end(), trial.notes.begin(), trial.notes.end());
  std::string out = "tried";
  size_t written = out.size();
  const size_t columns = std::max<size_t>(terminal.columns, kIndentOfText + 20) - kIndentOfText;
  for (const std::string& text : texts) {
    for (const std::string& line : wrap(printable(text), columns)) {
      out.append(kIndentOfText - written, ' ');
      out += line + "\n";
      written = 0;
    }
  }
  return out;
}

void write_trial(JsonWriter& json, const Trial& trial) {
  json.begin_object();
  json.field("directory", trial.directory);
  json.field("files", trial.file_count);
  json.field("dataset_files", trial.dataset_count);
  json.field("bytes", trial.size_bytes);
  json.field("calls", trial.call_count);
  json.field("recorded_ns", trial.recorded_ns);
  write_times(json, "from_files", trial.files);
  write_times(json, "from_store", trial.store);
  json.field("job_was", was_cold(trial) ? "cold" : "hot");
  json.field("saved_ns", trial.gain.saved_ns);
  json.field("share", trial.gain.share);
  json.field("of", trial.gain.of_training ? "training time" : "wall time");
  json.key("notes");
  json.begin_list();
  for (const std::string& note : trial.notes) json.value(note);
  json.end_list();
  json.end_object();
}

}  // namespace millrace::advise
