// metadata-storm: files are listed and examined again and again: at each sample, at each batch, or
// at the start of each epoch.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "analyze/files/file_kinds.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {

bool examines_files(const analyze::Profile& profile) {
  constexpr uint64_t kPerSampleMin = 16;
  constexpr uint64_t kPerOpenMin = 32;  // opening a file with PIL makes 7, with sqlite 17
  constexpr uint64_t kMissingMin = 8;   // sqlite looks for 4 files that do not exist
  constexpr uint64_t kWithOpenOfPython = 2;
  const analyze::Loading& loading = profile.loading;
  const uint64_t samples = std::max<uint64_t>(loading.samples, 1);
  if (loading.stats + loading.lists < kCallsMin) return false;
  if (2 * loading.lists >= samples) return true;
  if (loading.missing >= kMissingMin * std::max(samples, loading.opens)) return true;
  const uint64_t with_opens = std::min(loading.stats, kWithOpenOfPython * loading.opens);
  const uint64_t others = loading.stats - with_opens;
  // Many such calls on a few files are those of a library that opens them again and again.
  return others >= kPerSampleMin * samples &&
         (profile.data.files_read >= kCallsMin || loading.stats >= kPerOpenMin * loading.opens);
}

uint64_t code_around_storm(const analyze::Profile& profile) {
  const analyze::Loading& loading = profile.loading;
  return examines_files(profile) ? around_calls(loading, loading.stats + loading.lists) : 0;
}

namespace {

struct Storm {
  uint64_t saved_ns = 0;
  std::string title;
  std::vector<Evidence> evidence;
};

// Calls that the training loop makes between steps, or between epochs.
Storm storm_in_loop(const analyze::Profile& profile, const Waiting& waiting) {
  uint64_t calls = 0;
  uint64_t gaps = 0;
  uint64_t stall_ns = 0;
  std::string directory;
  for (const analyze::Stall& stall : profile.stalls) {
    if (stall.phase != kInTraining || !is_metadata(profile, stall.name)) continue;
    if (analyze::is_system_path(stall.directory + "/")) continue;
    if (calls == 0) directory = stall.directory;  // sorted by time
    calls += stall.count;
    gaps = std::max(gaps, stall.gaps);
    stall_ns += stall.stall_ns;
  }
  if (calls < kCallsMin) return {};
  return {.saved_ns = stall_ns / waiting.ranks,
          .title = "metadata storm: the training loop lists and examines files",
          .evidence = {
              {fmt::format("{} calls such as stat and readdir in {}, between steps, most "
                           "of them in {}",
                           format_exact(calls), counted(gaps, "gap", "gaps"), directory),
               "stalls"},
              {fmt::format("training stopped for {} meanwhile", duration(stall_ns / waiting.ranks)),
               "stalls"}}};
}

std::string found_nothing(const analyze::Loading& loading) {
  if (2 * loading.missing < loading.stats + loading.lists) return {};
  return fmt::format(", {} of them for files that do not exist",
                     format_percent(ratio(loading.missing, loading.stats + loading.lists)));
}

// Calls that belong to loading samples.
Storm storm_in_loading(const analyze::Profile& profile, const Waiting& waiting) {
  const analyze::Loading& loading = profile.loading;
  const uint64_t calls = loading.stats + loading.lists;
  if (!examines_files(profile)) return {};
  const uint64_t time_ns = scaled(loading.metadata_ns, ratio(calls, calls + 2 * loading.opens)) +
                           code_around_storm(profile);
  return {.saved_ns = waiting.due_to(time_ns),
          .title = "metadata storm: files are listed and examined for each sample",
          .evidence = {
              {fmt::format("{} calls such as stat and readdir for {}{}", format_exact(calls),
                           counted(loading.samples, "sample", "samples"), found_nothing(loading)),
               "loading"},
              {fmt::format("they and the code around them took {} of {} of loading",
                           duration(time_ns), duration(loading.work_ns)),
               "loading"}}};
}

// Without regions, it is only known that the job examines far more files than it opens.
Storm storm_without_regions(const analyze::Profile& profile, const Waiting& waiting) {
  constexpr uint64_t kPerOpenMin = 8;
  if (profile.time.basis == analyze::WaitBasis::kRegions) return {};
  analyze::IoTotals io;
  for (const analyze::GroupStats& kind : profile.kinds) {
    if (kind.name != analyze::name_of(analyze::FileKind::kSystem)) io += kind.io;
  }
  if (io.metadata < kCallsMin || io.metadata < kPerOpenMin * io.opens) return {};
  const uint64_t others = 2 * io.opens + io.seeks;  // an open comes with a close
  const uint64_t time_ns = scaled(io.metadata_ns, ratio(io.metadata, io.metadata + others));
  return {.saved_ns = waiting.exposed_due_to(time_ns),
          .title = "metadata storm: the job lists and examines files",
          .evidence = {{fmt::format("{} calls such as stat and readdir, and {} opens",
                                    format_exact(io.metadata), format_exact(io.opens)),
                        "kinds"},
                       {fmt::format("they took {}", duration(time_ns)), "kinds"}}};
}

struct EpochStorms {
  uint64_t epochs = 0;   // that start with a storm
  uint64_t calls = 0;    // metadata calls in the storms
  uint64_t long_ns = 0;  // duration of the storms
  int64_t first = -1;    // the first such epoch
};

// The start of an epoch is its first tenth.
void look_at(const analyze::Profile& profile, const analyze::EpochStats& epoch,
             EpochStorms& storms) {
  constexpr size_t kBinsMin = 10;
  constexpr double kShareMin = 0.5;
  const analyze::Timeline& line = profile.timeline;
  const size_t begin = std::min<size_t>(epoch.begin_ns / line.bin_ns, line.metadata.size());
  const size_t end = std::min<size_t>(epoch.end_ns / line.bin_ns + 1, line.metadata.size());
  if (end < begin + kBinsMin) return;
  const size_t early_end = begin + std::max<size_t>((end - begin) / 10, 1);
  const auto sum = [&](const std::vector<uint64_t>& values, size_t from, size_t to) {
    return std::accumulate(values.begin() + static_cast<ptrdiff_t>(from),
                           values.begin() + static_cast<ptrdiff_t>(to), uint64_t{0});
  };
  const uint64_t all = sum(line.metadata, begin, end);
  const uint64_t early = sum(line.metadata, begin, early_end);
  const uint64_t early_calls = sum(line.operations, begin, early_end);
  // Most metadata calls of the epoch are here, and most calls here are metadata calls.
  if (early < kCallsMin || ratio(early, all) < kShareMin || 2 * early < early_calls) return;
  storms.epochs += 1;
  storms.calls += early;
  for (size_t bin = begin; bin < early_end; ++bin) {
    storms.long_ns += std::min(line.busy_ns[bin], line.bin_ns);
  }
  if (storms.first < 0) storms.first = epoch.epoch;
}

Storm storm_at_epochs(const analyze::Profile& profile, const Waiting& waiting) {
  EpochStorms storms;
  if (profile.timeline.bin_ns == 0) return {};
  for (const analyze::EpochStats& epoch : profile.epochs) look_at(profile, epoch, storms);
  // Files are opened at the start of every job.
  if (storms.epochs == 0 || (storms.epochs == 1 && profile.epochs.size() > 1)) return {};
  return {
      .saved_ns = std::min(storms.long_ns, waiting.exposed_ns),
      .title = "metadata storm at the start of epochs",
      .evidence = {
          {fmt::format("{} of {} epochs start with opens, stats and directory listings: {} in "
                       "their first tenth, more than in the rest",
                       storms.epochs, profile.epochs.size(), format_exact(storms.calls)),
           fmt::format("epochs:{}", storms.first)},
          {fmt::format("for {} there is little other I/O", duration(storms.long_ns)), "timeline"}}};
}

}  // namespace

Judged judge_metadata_storm(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  Storm storm = storm_in_loop(profile, waiting);
  for (auto* look : {storm_in_loading, storm_without_regions, storm_at_epochs}) {
    Storm other = look(profile, waiting);
    if (other.saved_ns > storm.saved_ns) storm = std::move(other);
  }
  if (!waiting.matters(storm.saved_ns)) return {};

  Finding finding;
  finding.title = storm.title;
  finding.evidence = std::move(storm.evidence);
  finding.threshold =
      "200 calls in the training loop; a listing for every second sample, 16 calls for each, or 8 "
      "that find nothing; half of an epoch's calls in its first tenth; or, without regions, 8 for each open; 3 % of training time: the files of a dataset do not change during a job, and a "
      "parallel file system serves about ten thousand such calls per second for all jobs together";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "list and examine the files once, before training, and keep the result (functools."
              "lru_cache for a file that is searched); better, store the list with the data; create the Dataset once, not every epoch; use "
              "persistent_workers=True")
          .tf_data(
              "list the files once, outside the epochs, and pass the list to "
              "tf.data.Dataset.from_tensor_slices; use repeat() instead of a new pipeline")
          .any("list on one rank and broadcast the names; pack small files into large ones")
          .store(
              fmt::format("serve open, stat and listings from memory: {}", store_commands(profile)))
          .take();
  finding.gain = gain_of(waiting, storm.saved_ns,
                         "the time in these calls and in the code around them, in which training "
                         "stops or waits");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
