// worker-restart: the workers of the loader are started anew at each epoch.
#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/phrases.h"

namespace millrace::advise {
namespace {

uint64_t unexplained_stalls(const Case& given) {
  uint64_t time_ns = 0;
  for (const analyze::Stall& stall : given.profile.stalls) {
    if (stall.phase == kInTraining && stall.name.empty()) time_ns += stall.stall_ns;
  }
  return time_ns;
}

Finding worker_restart_text(const Case& given, uint64_t processes) {
  const uint64_t later = given.loading.epoch_starts - given.ranks;
  const uint64_t starts_ns = given.loading.epoch_starts_ns - given.loading.epoch_starts_first_ns;
  const bool at_epochs = given.loading.epoch_starts <= given.epochs * given.ranks;
  return {
      .kind = at_epochs ? "the workers are started anew at each epoch"
                        : "the workers are started anew for each pass over a loader",
      .evidence = {at("job", "{} processes for {} in {} over loaders", processes,
                      counted(given.loading.threads, "worker", "workers"),
                      counted(given.loading.epoch_starts / given.ranks, "pass", "passes")),
                   at("loading",
                      "later passes begin after {} each, of which {} would be the first batch",
                      duration(starts_ns / later), duration(given.loading.fetch_mean_ns))},
      .threshold =
          "5 % of training time: a worker that stays has its modules loaded and its files open",
      .changes =
          {{"pytorch",
            "keep the workers: DataLoader(..., persistent_workers=True), and create the DataLoader "
            "once, not in each epoch"},
           {"tf.data", "use one pipeline with repeat() instead of a new one for each epoch"},
           {"loader",
            "use millrace.DataLoader(..., persistent_workers=True): its workers go on into the "
            "next epoch"}},
      .gain = {.how = "the time from the start of later passes to their first batch, minus one "
                      "fetch, and the gaps at their ends"}};
}

}  // namespace

Judged judge_worker_restart(const Case& given) {
  if (given.loading.threads == 0 || given.loading.epoch_starts <= given.ranks) return {};
  // Workers that stay are the same processes in all epochs.
  const uint64_t processes = minus(given.job.processes, given.ranks) / given.ranks;
  if (processes < 2 * given.loading.threads) return {};
  const uint64_t later = given.loading.epoch_starts - given.ranks;
  const uint64_t starts_ns = given.loading.epoch_starts_ns - given.loading.epoch_starts_first_ns;
  // The first batch of an epoch has to be fetched in any case.
  const uint64_t left_ns = later * given.loading.fetch_mean_ns;
  const uint64_t extra_ns = minus(starts_ns, left_ns);
  // Training also stops until the old workers have ended, in gaps without calls. That takes about
  // as long as starting them.
  const uint64_t ends_ns = std::min(unexplained_stalls(given), extra_ns);
  const uint64_t saved_ns = (extra_ns + ends_ns) / given.ranks;
  if (given.waiting.share(saved_ns) < kWaitShareMin) return {};
  return less_time(given.waiting, saved_ns, worker_restart_text(given, processes));
}

}  // namespace millrace::advise
