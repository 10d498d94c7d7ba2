// metadata-storm: files are listed and examined again and again: at each sample, at each batch, or
// at the start of each epoch.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "analyze/files/file_kinds.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {

bool examines_files(const Case& given) {
  constexpr uint64_t kPerSampleMin = 16;
  constexpr uint64_t kPerOpenMin = 32;  // opening a file with PIL makes 7, with sqlite 17
  constexpr uint64_t kMissingMin = 8;   // sqlite looks for 4 files that do not exist
  constexpr uint64_t kWithOpenOfPython = 2;
  const uint64_t samples = std::max<uint64_t>(given.loading.samples, 1);
  if (given.loading.stats + given.loading.lists < kCallsMin) return false;
  if (2 * given.loading.lists >= samples) return true;
  if (given.loading.missing >= kMissingMin * std::max(samples, given.loading.opens)) return true;
  const uint64_t with_opens =
      std::min(given.loading.stats, kWithOpenOfPython * given.loading.opens);
  const uint64_t others = given.loading.stats - with_opens;
  // Many such calls on a few files are those of a library that opens them again and again.
  return others >= kPerSampleMin * samples &&
         (given.profile.data.files_read >= kCallsMin ||
          given.loading.stats >= kPerOpenMin * given.loading.opens);
}

uint64_t code_around_storm(const Case& given) {
  return examines_files(given) ? around_calls(given, given.loading.stats + given.loading.lists) : 0;
}

namespace {

enum class Place : uint8_t { kLoop, kLoading, kUnmarked, kEpochs };

struct Storm {
  Place place{};
  uint64_t saved_ns = 0;
  uint64_t calls = 0;
  uint64_t time_ns = 0;    // in the calls, or without much other I/O
  uint64_t count = 0;      // of gaps, of files opened, or of epochs that start with a storm
  std::string where = {};  // a directory, or the first such epoch
};

// Calls that the training loop makes between steps, or between epochs.
Storm storm_in_loop(const Case& given) {
  Storm storm{.place = Place::kLoop};
  for (const analyze::Stall& stall : given.profile.stalls) {
    if (stall.phase != kInTraining || !is_metadata(given.profile, stall.name)) continue;
    if (analyze::is_system_path(stall.directory + "/")) continue;
    if (storm.calls == 0) storm.where = stall.directory;  // sorted by time
    storm.calls += stall.count;
    storm.count = std::max(storm.count, stall.gaps);
    storm.time_ns += stall.stall_ns;
  }
  if (storm.calls < kCallsMin) return {};
  storm.saved_ns = storm.time_ns = storm.time_ns / given.ranks;
  return storm;
}

// Calls that belong to loading samples.
Storm storm_in_loading(const Case& given) {
  const uint64_t calls = given.loading.stats + given.loading.lists;
  if (!examines_files(given)) return {};
  const uint64_t time_ns =
      scaled(given.loading.metadata_ns, ratio(calls, calls + 2 * given.loading.opens)) +
      code_around_storm(given);
  return {.place = Place::kLoading,
          .saved_ns = given.waiting.due_to(time_ns),
          .calls = calls,
          .time_ns = time_ns};
}

// Without regions, it is only known that the job examines far more files than it opens.
Storm storm_without_regions(const Case& given) {
  constexpr uint64_t kPerOpenMin = 8;
  if (given.profile.time.basis == analyze::WaitBasis::kRegions) return {};
  analyze::IoTotals io;
  for (const analyze::GroupStats& kind : given.profile.kinds) {
    if (kind.name != analyze::name_of(analyze::FileKind::kSystem)) io += kind.io;
  }
  if (io.metadata < kCallsMin || io.metadata < kPerOpenMin * io.opens) return {};
  const uint64_t others = 2 * io.opens + io.seeks;  // an open comes with a close
  const uint64_t time_ns = scaled(io.metadata_ns, ratio(io.metadata, io.metadata + others));
  return {.place = Place::kUnmarked,
          .saved_ns = given.waiting.exposed_due_to(time_ns),
          .calls = io.metadata,
          .time_ns = time_ns,
          .count = io.opens};
}

// The start of an epoch is its first tenth.
void look_at(const Case& given, const analyze::EpochStats& epoch, Storm& storm) {
  constexpr size_t kBinsMin = 10;
  constexpr double kShareMin = 0.5;
  const analyze::Timeline& line = given.profile.timeline;
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
  if (storm.count == 0) storm.where = fmt::format("{}", epoch.epoch);
  storm.count += 1;
  storm.calls += early;
  for (size_t bin = begin; bin < early_end; ++bin) {
    storm.time_ns += std::min(line.busy_ns[bin], line.bin_ns);
  }
}

Storm storm_at_epochs(const Case& given) {
  Storm storm{.place = Place::kEpochs};
  if (given.profile.timeline.bin_ns == 0) return {};
  for (const analyze::EpochStats& epoch : given.profile.epochs) look_at(given, epoch, storm);
  // Files are opened at the start of every job.
  if (storm.count == 0 || (storm.count == 1 && given.profile.epochs.size() > 1)) return {};
  storm.saved_ns = std::min(storm.time_ns, given.waiting.exposed_ns);
  return storm;
}

std::string found_nothing(const Case& given) {
  const uint64_t calls = given.loading.stats + given.loading.lists;
  if (2 * given.loading.missing < calls) return {};
  return fmt::format(", {} of them for files that do not exist",
                     format_percent(ratio(given.loading.missing, calls)));
}

std::string storm_details(Place place) {
  switch (place) {
    case Place::kLoop:
      return "the training loop lists and examines files";
    case Place::kLoading:
      return "files are listed and examined for each sample";
    case Place::kUnmarked:
      return "the job lists and examines files";
    case Place::kEpochs:
      break;
  }
  return {};
}

std::vector<Evidence> storm_evidence(const Case& given, const Storm& storm) {
  const std::string calls = format_exact(storm.calls);
  const std::string time = duration(storm.time_ns);
  switch (storm.place) {
    case Place::kLoop:
      return {
          at("stalls", "{} calls such as stat and readdir in {}, between steps, most of them in {}",
             calls, counted(storm.count, "gap", "gaps"), storm.where),
          at("stalls", "training stopped for {} meanwhile", time)};
    case Place::kLoading:
      return {at("loading", "{} calls such as stat and readdir for {}{}", calls,
                 counted(given.loading.samples, "sample", "samples"), found_nothing(given)),
              at("loading", "they and the code around them took {} of {} of loading", time,
                 duration(given.loading.work_ns))};
    case Place::kUnmarked:
      return {at("kinds", "{} calls such as stat and readdir, and {} opens", calls,
                 format_exact(storm.count)),
              at("kinds", "they took {}", time)};
    case Place::kEpochs:
      break;
  }
  return {at("epochs:" + storm.where,
             "{} of {} epochs start with opens, stats and directory listings: {} in their first "
             "tenth, more than in the rest",
             storm.count, given.profile.epochs.size(), calls),
          at("timeline", "for {} there is little other I/O", time)};
}

Finding metadata_storm_text(const Case& given, const Storm& storm) {
  return {
      .kind = storm.place == Place::kEpochs ? "metadata storm at the start of epochs"
                                            : "metadata storm",
      .details = storm_details(storm.place),
      .evidence = storm_evidence(given, storm),
      .threshold =
          "200 calls in the training loop; a listing for every second sample, 16 calls for each, or 8 "
          "that find nothing; half of an epoch's calls in its first tenth; or, without regions, 8 for each open; 3 % of training time: the files of a dataset do not change during a job, and a "
          "parallel file system serves about ten thousand such calls per second for all jobs together",
      .changes =
          {{"pytorch",
            "list and examine the files once, before training, and keep the result "
            "(functools.lru_cache for a file that is searched); better, store the list with the "
            "data; create the Dataset once, not every epoch; use persistent_workers=True"},
           {"tf.data",
            "list the files once, outside the epochs, and pass the list to "
            "tf.data.Dataset.from_tensor_slices; use repeat() instead of a new pipeline"},
           {"any", "list on one rank and broadcast the names; pack small files into large ones"},
           {"store",
            fmt::format("serve open, stat and listings from memory: {}", store_commands(given))}},
      .gain = {.how = "the time in these calls and in the code around them, in which training "
                      "stops or waits"}};
}

}  // namespace

Judged judge_metadata_storm(const Case& given) {
  Storm storm = storm_in_loop(given);
  for (auto* look : {storm_in_loading, storm_without_regions, storm_at_epochs}) {
    Storm other = look(given);
    if (other.saved_ns > storm.saved_ns) storm = std::move(other);
  }
  if (!given.waiting.matters(storm.saved_ns)) return {};
  return less_waiting(given.waiting, storm.saved_ns, metadata_storm_text(given, storm));
}

}  // namespace millrace::advise
