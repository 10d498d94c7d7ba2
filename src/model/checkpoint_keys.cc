// The sections `checkpoint` and `model`: what was saved, how often, and by whom.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/numbers/statistics.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "model/derive.h"

namespace millrace::model {
namespace {

using analyze::Checkpoint;
using analyze::Profile;

uint64_t median_of(std::vector<double> values) {
  return values.empty() ? 0 : static_cast<uint64_t>(std::llround(quantile(values, 0.5)));
}

bool has_step_between(const Profile& profile, const Checkpoint& before, const Checkpoint& after) {
  return std::ranges::any_of(profile.steps.all, [&](const analyze::StepStats& step) {
    return before.begin_ns < step.begin_ns && step.begin_ns < after.begin_ns;
  });
}

void merge(const Checkpoint& more, Checkpoint& checkpoint) {
  checkpoint.end_ns = std::max(checkpoint.end_ns, more.end_ns);
  checkpoint.ranks_writing = std::max(checkpoint.ranks_writing, more.ranks_writing);
  checkpoint.bytes += more.bytes;
  checkpoint.writes += more.writes;
  checkpoint.stalled_ns += more.stalled_ns;
}

// Those that wrote something: a region without writes is no checkpoint. A job that saves the model
// and then the optimizer writes one checkpoint, so what no step separates is one. Without steps,
// each is taken as it is.
std::vector<Checkpoint> written(const Profile& profile) {
  std::vector<Checkpoint> saves;
  for (const Checkpoint& checkpoint : profile.checkpoints) {
    if (checkpoint.bytes > 0) saves.push_back(checkpoint);
  }
  std::ranges::sort(saves, {}, &Checkpoint::begin_ns);
  std::vector<Checkpoint> all;
  for (const Checkpoint& save : saves) {
    const bool is_more =
        !all.empty() && !profile.steps.all.empty() && !has_step_between(profile, all.back(), save);
    if (is_more) {
      merge(save, all.back());
    } else {
      all.push_back(save);
    }
  }
  return all;
}

// The number of the epoch that a checkpoint follows, from 1.
uint64_t epoch_of(const Evidence& evidence, const Checkpoint& checkpoint) {
  const auto& epochs = evidence.profile.epochs;
  for (size_t i = 0; i < epochs.size(); ++i) {
    if (epochs[i].epoch == checkpoint.epoch) return i + 1;
  }
  return evidence.counts.epochs;
}

bool is_one_per_epoch(const Evidence& evidence, const std::vector<Checkpoint>& all) {
  std::set<uint64_t> epochs;
  for (const Checkpoint& checkpoint : all) epochs.insert(epoch_of(evidence, checkpoint));
  return epochs.size() == all.size();
}

// Steps of the first rank before each checkpoint; empty if the profile has no single steps.
std::vector<double> steps_between(const Profile& profile, const std::vector<Checkpoint>& all) {
  std::vector<double> between;
  uint64_t before = 0;
  for (const Checkpoint& checkpoint : all) {
    const auto steps = static_cast<uint64_t>(std::count_if(
        profile.steps.all.begin(), profile.steps.all.end(),
        [&](const auto& step) { return step.rank == 0 && step.begin_ns < checkpoint.begin_ns; }));
    if (steps > before) between.push_back(static_cast<double>(steps - before));
    before = steps;
  }
  return between;
}

// How much the values differ: the standard deviation as a part of the mean.
double variation(const std::vector<double>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(std::max<size_t>(values.size(), 1));
  const double mean = sum / count;
  return mean == 0 ? 0 : std::sqrt(std::max(squares / count - mean * mean, 0.0)) / mean;
}

std::vector<double> seconds_between(const std::vector<Checkpoint>& all) {
  std::vector<double> between;
  for (size_t i = 1; i < all.size(); ++i) {
    between.push_back(static_cast<double>(all[i].begin_ns - all[i - 1].begin_ns) / 1e9);
  }
  return between;
}

void set_by_epochs(const Evidence& evidence, const std::vector<Checkpoint>& all, Sheet& sheet) {
  bench::CheckpointConfig& checkpoint = sheet.workload().checkpoint;
  const uint64_t first = epoch_of(evidence, all.front());
  const uint64_t last = epoch_of(evidence, all.back());
  const uint64_t between = all.size() < 2
                               ? std::max<uint64_t>(evidence.counts.epochs, 1)
                               : std::max<uint64_t>((last - first) / (all.size() - 1), 1);
  sheet.set("checkpoint.checkpoint_after_epoch", checkpoint.checkpoint_after_epoch, first,
            "the first checkpoint");
  sheet.set("checkpoint.epochs_between_checkpoints", checkpoint.epochs_between_checkpoints, between,
            fmt::format("{} in {}", counted(all.size(), "checkpoint", "checkpoints"),
                        counted(evidence.counts.epochs, "epoch", "epochs")));
}

void set_by_steps(const Evidence& evidence, const std::vector<Checkpoint>& all, Sheet& sheet) {
  constexpr size_t kIntervalsMin = 4;
  constexpr double kRegular = 0.1;
  constexpr double kIrregular = 0.3;
  bench::CheckpointConfig& checkpoint = sheet.workload().checkpoint;
  const std::vector<double> steps = steps_between(evidence.profile, all);
  const std::vector<double> seconds = seconds_between(all);
  const std::string count =
      fmt::format("{} in {}", counted(all.size(), "checkpoint", "checkpoints"),
                  counted(evidence.counts.steps, "step", "steps"));
  if (seconds.size() >= kIntervalsMin && variation(seconds) < kRegular &&
      variation(steps) > kIrregular) {
    std::vector<double> sorted = seconds;
    sheet.set("checkpoint.time_between_checkpoints", checkpoint.time_between_checkpoints_s,
              std::round(quantile(sorted, 0.5) * 1000) / 1000,
              count + ", at equal intervals of time but not of steps");
    return;
  }
  const uint64_t mean = (evidence.counts.steps + all.size() / 2) / all.size();
  const uint64_t between = steps.empty() ? mean : median_of(steps);
  sheet.set("checkpoint.steps_between_checkpoints", checkpoint.steps_between_checkpoints,
            std::max<uint64_t>(between, 1), count);
}

void set_size(const std::vector<Checkpoint>& all, Sheet& sheet) {
  std::vector<double> bytes;
  uint64_t ranks = 1;
  for (const Checkpoint& checkpoint : all) {
    const uint64_t writing = std::max<uint64_t>(checkpoint.ranks_writing, 1);
    bytes.push_back(static_cast<double>(checkpoint.bytes) / static_cast<double>(writing));
    ranks = std::max<uint64_t>(ranks, writing);
  }
  sheet.set("model.model_size_bytes", sheet.workload().model.model_size_bytes, median_of(bytes),
            ranks > 1 ? "median of the bytes that a rank wrote to a checkpoint"
                      : "median of the bytes of a checkpoint");
  sheet.set("checkpoint.type", sheet.workload().checkpoint.type,
            ranks > 1 ? bench::CheckpointType::kAllRanks : bench::CheckpointType::kRankZero,
            fmt::format("{} wrote", counted(ranks, "rank", "ranks")));
}

void set_durability(const Profile& profile, const std::vector<Checkpoint>& all, Sheet& sheet) {
  bench::CheckpointConfig& checkpoint = sheet.workload().checkpoint;
  uint64_t syncs = 0;
  for (const analyze::GroupStats& kind : profile.kinds) {
    if (kind.name == "checkpoint") syncs += kind.io.syncs;
  }
  sheet.set("checkpoint.fsync", checkpoint.fsync, syncs >= all.size(),
            fmt::format("{} on checkpoint files", counted(syncs, "fsync call", "fsync calls")));
  std::vector<double> stalled;
  for (const Checkpoint& each : all) {
    const uint64_t time_ns = each.end_ns - each.begin_ns;
    if (time_ns == 0) continue;
    stalled.push_back(static_cast<double>(each.stalled_ns) / static_cast<double>(time_ns));
  }
  if (stalled.empty() || quantile(stalled, 0.5) > 0.3) return;
  sheet.set("checkpoint.write_mode", checkpoint.write_mode, bench::WriteMode::kAsync,
            fmt::format("training goes on in {} of the time of a checkpoint",
                        format_percent(1 - quantile(stalled, 0.5))));
}

// ".data-00000-of-00001" and ".index" belong to a checkpoint of TensorFlow.
void set_layout(const Profile& profile, Sheet& sheet) {
  std::vector<double> data;
  std::vector<double> index;
  std::vector<double> meta;
  std::vector<double> state;
  for (const analyze::FileStats& file : profile.files) {
    if (file.io.bytes_written == 0) continue;
    const auto size = static_cast<double>(file.size_bytes);
    if (file.path.find(".data-0") != std::string::npos) data.push_back(size);
    if (file.path.ends_with(".index")) index.push_back(size);
    if (file.path.ends_with(".meta")) meta.push_back(size);
    if (file.path.ends_with("/checkpoint")) state.push_back(size);
  }
  if (data.empty() || index.empty()) return;
  bench::CheckpointConfig& checkpoint = sheet.workload().checkpoint;
  sheet.set("checkpoint.layout", checkpoint.layout, bench::CheckpointLayout::kTensorflow,
            "files named *.data-* and *.index");
  sheet.set(
      "checkpoint.file_sizes", checkpoint.file_sizes,
      std::vector<uint64_t>{median_of(state), median_of(meta), median_of(data), median_of(index)},
      "medians of checkpoint, .meta, .data and .index");
}

}  // namespace

size_t derive_checkpoints(const Evidence& evidence, Sheet& sheet) {
  const std::vector<Checkpoint> all = written(evidence.profile);
  if (all.empty()) return 0;
  sheet.set("checkpoint.checkpoint_folder", sheet.workload().checkpoint.checkpoint_folder,
            fmt::format("checkpoints/{}/", sheet.workload().name), "not the job's own");
  set_size(all, sheet);
  if (is_one_per_epoch(evidence, all)) {
    set_by_epochs(evidence, all, sheet);
  } else {
    set_by_steps(evidence, all, sheet);
  }
  set_durability(evidence.profile, all, sheet);
  set_layout(evidence.profile, sheet);
  const bool restores =
      std::any_of(evidence.profile.stretches.begin(), evidence.profile.stretches.end(),
                  [](const auto& each) { return each.role == analyze::Role::kRestore; });
  if (restores) sheet.missing("The job also read a checkpoint.");
  return all.size();
}

}  // namespace millrace::model
