// metadata-storm: at the start of an epoch all ranks list, stat and open files, and do little else.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

struct Storms {
  uint64_t epochs = 0;   // that start with a storm
  uint64_t calls = 0;    // metadata calls in the storms
  uint64_t busy_ns = 0;  // time in I/O calls during the storms, summed over threads
  uint64_t long_ns = 0;  // duration of the storms
  int64_t first = -1;    // the first such epoch
};

// The start of an epoch is its first tenth.
void look_at(const analyze::Profile& profile, const analyze::EpochStats& epoch, Storms& storms) {
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
  storms.busy_ns += sum(line.busy_ns, begin, early_end);
  for (size_t bin = begin; bin < early_end; ++bin) {
    storms.long_ns += std::min(line.busy_ns[bin], line.bin_ns);
  }
  if (storms.first < 0) storms.first = epoch.epoch;
}

}  // namespace

Judged judge_metadata_storm(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  if (profile.timeline.bin_ns == 0) return {};
  Storms storms;
  for (const analyze::EpochStats& epoch : profile.epochs) look_at(profile, epoch, storms);
  if (storms.epochs == 0 || !waiting.matters(storms.busy_ns)) return {};
  if (waiting.share(storms.long_ns) < kTimeShareMin) return {};

  Finding finding;
  finding.title = "metadata storm at the start of epochs";
  finding.evidence = {
      {fmt::format(
           "{} of {} epochs start with opens, stats and directory listings: {} in their first "
           "tenth, more than in the rest",
           storms.epochs, profile.epochs.size(), format_exact(storms.calls)),
       fmt::format("epochs:{}", storms.first)},
      {fmt::format("for {} there is little other I/O", duration(storms.long_ns)), "timeline"}};
  finding.threshold =
      "half of an epoch's metadata calls in its first tenth, at least a thousand, and more than "
      "half of the calls there: a parallel file system serves about ten thousand per second for "
      "all jobs together";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "list the files once and store the list (text or pickle) with the data; create the "
              "Dataset once, not every epoch; use persistent_workers=True")
          .tf_data(
              "list the files once, outside the epochs, and pass the list to "
              "tf.data.Dataset.from_tensor_slices; use repeat() instead of a new pipeline")
          .any("list on one rank and broadcast the names; pack small files into large ones")
          .store(
              "millrace store (coming) serves open, stat and listings from the memory of the host")
          .take();
  finding.gain = gain_of(waiting, std::min(storms.long_ns, waiting.exposed_ns),
                         "the time in which calls of these storms were in flight");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
