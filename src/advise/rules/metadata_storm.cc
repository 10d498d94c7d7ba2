// metadata-storm: all ranks list, stat and open at the start of an epoch, and nothing else happens.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

struct Storms {
  uint64_t epochs = 0;   // that begin with one
  uint64_t calls = 0;    // in them
  uint64_t busy_ns = 0;  // of their bins, in I/O calls of all threads
  uint64_t long_ns = 0;  // their length
  int64_t first = -1;    // an epoch to look at
};

// The beginning of an epoch is its first tenth.
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
  // Most of the epoch's questions come here, and most of what happens here are questions.
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
  finding.title = "epochs begin with a storm of metadata";
  finding.evidence = {
      {fmt::format(
           "{} of {} epochs begin with opens, stats and listings: {} in their first tenth, more "
           "than in the rest of them",
           storms.epochs, profile.epochs.size(), format_exact(storms.calls)),
       fmt::format("epochs:{}", storms.first)},
      {fmt::format("for {} little else happens", duration(storms.long_ns)), "timeline"}};
  finding.threshold =
      "half of an epoch's calls that move no bytes in its first tenth, a thousand at least, "
      "and more than half of the calls there: a parallel file system answers some ten "
      "thousand a second, for all jobs together";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "list the files once and keep the list (a text file, or pickled) beside the data; make "
              "the Dataset once, not every epoch; persistent_workers=True")
          .tf_data(
              "list the files once, outside the epochs, and pass the list to "
              "tf.data.Dataset.from_tensor_slices; repeat() instead of a new pipeline")
          .any("let one rank list and broadcast the names; pack small files into large ones")
          .store(
              "millrace store (coming) answers open, stat and listing from the node's own memory")
          .take();
  finding.gain = gain_of(waiting, std::min(storms.long_ns, waiting.unhidden_ns),
                         "the time of these stretches in which calls were under way");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
