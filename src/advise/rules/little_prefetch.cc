// little-prefetch: data is fetched only after training has stopped to wait for it.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_little_prefetch(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kHiddenShareMax = 0.25;
  const Waiting waiting = waiting_of(profile);
  const analyze::TimeSplit& mean = profile.time.mean;
  // Only where training marks what it does: otherwise nobody knows what could be overlapped.
  if (profile.time.basis != analyze::WaitBasis::kRegions || mean.compute_ns == 0) return {};
  if (waiting.data_ns < kSecond || waiting.share(waiting.data_ns) < kWaitShareMin) return {};
  // Loading is reading, fetching and decoding. The part of it during compute is hidden.
  const uint64_t unhidden_ns = std::max(mean.io_unhidden_ns, mean.fetch_unhidden_ns);
  const uint64_t hidden_ns =
      std::max(mean.io_hidden_ns,
               std::max(mean.fetch_ns, mean.decode_ns) -
                   std::min(std::max(mean.fetch_ns, mean.decode_ns), mean.fetch_unhidden_ns));
  const double hidden_share = ratio(hidden_ns, hidden_ns + unhidden_ns);
  if (unhidden_ns == 0 || hidden_share >= kHiddenShareMax) return {};
  const uint64_t free_compute_ns = mean.compute_ns - std::min(mean.compute_ns, hidden_ns);
  const uint64_t saved_ns = std::min({waiting.data_ns, free_compute_ns, unhidden_ns});
  if (waiting.share(saved_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title = "batches are not prefetched: loading does not overlap with compute";
  finding.evidence = {
      {fmt::format("a rank waits {} for data, {} of the wall time", duration(waiting.data_ns),
                   format_percent(waiting.share(waiting.data_ns))),
       "time.mean"},
      {fmt::format("{} of the loading overlaps with compute; for {} it computes while nothing is "
                   "loaded",
                   format_percent(hidden_share), duration(free_compute_ns)),
       "time.mean"}};
  finding.threshold =
      "under 25 % overlaps: a loader that is one batch ahead overlaps all of the shorter of loading "
      "and compute, so these batches were requested too late";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "DataLoader(..., num_workers=4, prefetch_factor=4, persistent_workers=True); with "
              "num_workers=0 the training process itself reads")
          .tf_data("end the pipeline with .prefetch(tf.data.AUTOTUNE)")
          .hdf5(
              "let each worker process open the file itself: the threads of one process share HDF5's "
              "one lock")
          .loader("millrace.DataLoader fetches batches ahead on its own threads")
          .take();
  finding.gain =
      gain_of(waiting, saved_ns,
              "the shorter of the waiting and of the compute without loading: with enough "
              "prefetch the two overlap");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
