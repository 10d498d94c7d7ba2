// little-prefetch: batches are loaded only when training already waits for them.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_little_prefetch(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kOverlappedShareMax = 0.25;
  const Waiting waiting = waiting_of(profile);
  const analyze::TimeSplit& mean = profile.time.mean;
  // Without marked regions, it is unknown what could overlap.
  if (profile.time.basis != analyze::WaitBasis::kRegions || mean.compute_ns == 0) return {};
  if (waiting.data_ns < kSecond || waiting.share(waiting.data_ns) < kWaitShareMin) return {};
  // Loading is reading, fetching and decoding. The part during compute is overlapped.
  const uint64_t exposed_ns = std::max(mean.io_exposed_ns, mean.fetch_exposed_ns);
  const uint64_t overlapped_ns =
      std::max(mean.io_overlapped_ns,
               std::max(mean.fetch_ns, mean.decode_ns) -
                   std::min(std::max(mean.fetch_ns, mean.decode_ns), mean.fetch_exposed_ns));
  const double overlapped_share = ratio(overlapped_ns, overlapped_ns + exposed_ns);
  if (exposed_ns == 0 || overlapped_share >= kOverlappedShareMax) return {};
  const uint64_t free_compute_ns = mean.compute_ns - std::min(mean.compute_ns, overlapped_ns);
  const uint64_t saved_ns = std::min({waiting.data_ns, free_compute_ns, exposed_ns});
  if (waiting.share(saved_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title = "batches are not prefetched: loading does not overlap with compute";
  finding.evidence = {
      {fmt::format("a rank waits {} for data, {} of the wall time", duration(waiting.data_ns),
                   format_percent(waiting.share(waiting.data_ns))),
       "time.mean"},
      {fmt::format("{} of the loading overlaps with compute; for {} a rank computes while nothing "
                   "is loaded",
                   format_percent(overlapped_share), duration(free_compute_ns)),
       "time.mean"}};
  finding.threshold =
      "less than 25 % overlaps: a loader that is one batch ahead overlaps all of the shorter of "
      "loading and compute, so these batches were requested too late";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "prefetch with workers: DataLoader(..., num_workers=4, prefetch_factor=4, "
              "persistent_workers=True); with num_workers=0 the training process itself reads")
          .tf_data("end the pipeline with .prefetch(tf.data.AUTOTUNE)")
          .hdf5(
              "open the file in each worker process: the threads of one process share HDF5's "
              "global lock")
          .loader("use millrace.DataLoader: it prefetches batches on its own threads")
          .take();
  finding.gain =
      gain_of(waiting, saved_ns,
              "the shorter of waiting and compute without loading: with enough prefetch the two "
              "overlap");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
