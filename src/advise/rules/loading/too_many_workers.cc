// too-many-workers: more workers than cores, which get in each other's way.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {

Judged judge_too_many_workers(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const analyze::Loading& loading = profile.loading;
  const auto cores = cores_per_rank(profile, machine);
  if (!cores || waiting.work_ns == 0 || loading.threads <= 2 * *cores) return {};
  if (waiting.share(waiting.data_ns) < kWaitShareMin) return {};
  // Workers that wait for storage need no core.
  const uint64_t code_ns = loading.work_ns - std::min(loading.work_ns, loading.read_ns);
  const double busy = loading.in_flight * ratio(code_ns, loading.work_ns);
  if (busy <= 1.5 * static_cast<double>(*cores)) return {};

  Finding finding;
  finding.title =
      fmt::format("too many workers: {} for {}", loading.threads, counted(*cores, "core", "cores"));
  finding.evidence = {
      {fmt::format("{:.1f} batches are fetched at a time by code that needs a core; a rank has {}",
                   busy, *cores),
       "loading"},
      {fmt::format("a rank waits {} for data, {}", duration(waiting.data_ns),
                   waiting.part(waiting.data_ns)),
       "time.mean"}};
  finding.threshold =
      "twice the cores, and 1.5 times as many fetches in progress: more workers do not compute "
      "faster, take memory, and delay the training process";
  finding.changes =
      Changes(profile, machine)
          .pytorch(fmt::format("use as many workers as cores: DataLoader(..., num_workers={}), and "
                               "torch.set_num_threads(1) in each",
                               *cores))
          .tf_data("use num_parallel_calls=tf.data.AUTOTUNE")
          .loader("use millrace.DataLoader without num_workers: it finds the number")
          .take();
  const uint64_t starts_ns = loading.epoch_starts_ns / waiting.ranks;
  const uint64_t saved_ns = scaled(starts_ns, 1 - ratio(*cores, loading.threads));
  finding.gain =
      waiting.matters(saved_ns)
          ? gain_of(waiting, saved_ns,
                    "the time to start the workers that are too many, until the first "
                    "batch of each epoch")
          : unknown_gain("a trace does not show how much the processes disturb each other");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
