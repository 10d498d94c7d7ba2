// worker-restart: the workers of the loader are started anew at each epoch.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

uint64_t unexplained_stalls(const analyze::Profile& profile) {
  uint64_t time_ns = 0;
  for (const analyze::Stall& stall : profile.stalls) {
    if (stall.phase == kInTraining && stall.name.empty()) time_ns += stall.stall_ns;
  }
  return time_ns;
}

}  // namespace

Judged judge_worker_restart(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const analyze::Loading& loading = profile.loading;
  if (loading.threads == 0 || loading.epoch_starts <= waiting.ranks) return {};
  // Workers that stay are the same processes in all epochs.
  const uint64_t processes =
      (profile.job.processes - std::min<uint64_t>(profile.job.processes, waiting.ranks)) /
      waiting.ranks;
  if (processes < 2 * loading.threads) return {};
  const uint64_t later = loading.epoch_starts - waiting.ranks;
  const uint64_t starts_ns = loading.epoch_starts_ns - loading.epoch_starts_first_ns;
  // The first batch of an epoch has to be fetched in any case.
  const uint64_t left_ns = later * loading.fetch_mean_ns;
  const uint64_t extra_ns = starts_ns - std::min(starts_ns, left_ns);
  // Training also stops until the old workers have ended, in gaps without calls. That takes about
  // as long as starting them.
  const uint64_t ends_ns = std::min(unexplained_stalls(profile), extra_ns);
  const uint64_t saved_ns = (extra_ns + ends_ns) / waiting.ranks;
  if (waiting.share(saved_ns) < kWaitShareMin) return {};

  Finding finding;
  const bool at_epochs = loading.epoch_starts <= epochs_of(profile) * waiting.ranks;
  finding.title = at_epochs ? "the workers are started anew at each epoch"
                            : "the workers are started anew for each pass over a loader";
  finding.evidence = {
      {fmt::format("{} processes for {} in {} over loaders", processes,
                   counted(loading.threads, "worker", "workers"),
                   counted(loading.epoch_starts / waiting.ranks, "pass", "passes")),
       "job"},
      {fmt::format("later passes begin after {} each, of which {} would be the first batch",
                   duration(starts_ns / later), duration(loading.fetch_mean_ns)),
       "loading"}};
  finding.threshold =
      "5 % of training time: a worker that stays has its modules loaded and its files open";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "keep the workers: DataLoader(..., persistent_workers=True), and create the "
              "DataLoader once, not in each epoch")
          .tf_data("use one pipeline with repeat() instead of a new one for each epoch")
          .loader(
              "use millrace.DataLoader(..., persistent_workers=True): its workers go on into the "
              "next epoch")
          .take();
  finding.gain = gain_of(waiting, saved_ns,
                         "the time from the start of later passes to their first batch, minus one "
                         "fetch, and the gaps at their ends");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
