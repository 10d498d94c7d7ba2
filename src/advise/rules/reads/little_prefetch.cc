// little-prefetch: batches are loaded only when training already waits for them, or by too few
// workers.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// Whether more workers than cores help: most of loading waits for storage that serves many reads.
bool waits_for_storage(const analyze::Profile& profile, const Machine& machine,
                       const Waiting& waiting) {
  return 2 * stored_reads_ns(profile) > waiting.work_ns && !may_serve_one(profile, machine);
}

// A mean rank, with workers on all of its cores. 0: it cannot become faster.
uint64_t saved_by_workers(const analyze::Profile& profile, const Machine& machine,
                          const Waiting& waiting) {
  constexpr uint64_t kWorkersUsual = 4;
  const analyze::Loading& loading = profile.loading;
  const auto cores = cores_per_rank(profile, machine);
  const uint64_t compute_ns = profile.time.mean.compute_ns;
  if (waiting.work_ns == 0) {
    // What loading does besides I/O is not known: with enough prefetch the two overlap.
    const analyze::TimeSplit& mean = profile.time.mean;
    return std::min({waiting.data_ns, compute_ns - std::min(compute_ns, mean.io_overlapped_ns),
                     mean.io_exposed_ns});
  }
  const uint64_t now_ns = waiting.steady_ns + compute_ns;
  const uint64_t load_ns = waiting.work_ns / waiting.ranks;
  uint64_t workers = std::max(cores.value_or(kWorkersUsual), loading.threads);
  if (waits_for_storage(profile, machine, waiting))
    workers = std::max(workers, 4 * loading.threads);
  const uint64_t stored_ns = stored_reads_ns(profile) / waiting.ranks;
  const uint64_t code_ns = load_ns - std::min(load_ns, stored_ns);
  // New workers have to hand batches over: with torch 1.13 on 2 cores, one of 256 KiB takes 1.4 ms
  // of a worker and 0.7 ms of the training process, which an accelerator does not wait for.
  constexpr uint64_t kGiveNs = 1'000'000;
  constexpr uint64_t kTakeNs = 500'000;
  const uint64_t batches = loading.threads == 0 ? loading.batches / waiting.ranks : 0;
  const bool on_host = profile.time.compute_basis == analyze::ComputeBasis::kRegions;
  const uint64_t train_ns = compute_ns + (on_host ? batches * kTakeNs : 0);
  const uint64_t given_ns = batches * kGiveNs;
  uint64_t then_ns = std::max(train_ns, (load_ns + given_ns) / workers);
  if (may_serve_one(profile, machine)) then_ns = std::max(then_ns, stored_ns);
  // Some more for what shares the cores.
  const uint64_t loaded_ns = std::max(code_ns + code_ns / 8, code_ns + given_ns);
  if (cores) then_ns = std::max(then_ns, (loaded_ns + train_ns) / *cores);
  return std::min(now_ns - std::min(now_ns, then_ns), waiting.steady_ns);
}

std::string pytorch_change(const analyze::Profile& profile, uint64_t workers) {
  if (loads_between_steps(profile)) {
    return "train on each batch as it comes: list(loader) and sorted(loader) load an epoch before "
           "its first step; sort in a batch_sampler instead";
  }
  return fmt::format(
      "prefetch with workers: DataLoader(..., num_workers={}, prefetch_factor=4, "
      "persistent_workers=True)",
      workers);
}

}  // namespace

Judged judge_little_prefetch(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kOverlappedShareMax = 0.25;
  constexpr double kSavedShareMin = 0.1;  // workers cost memory and time to start
  const Waiting waiting = waiting_of(profile);
  const analyze::TimeSplit& mean = profile.time.mean;
  const analyze::Loading& loading = profile.loading;
  // Without marked regions, it is unknown what could overlap.
  if (profile.time.basis != analyze::WaitBasis::kRegions || mean.compute_ns == 0) return {};
  if (waiting.share(waiting.steady_ns) < kWaitShareMin) return {};
  const auto cores = cores_per_rank(profile, machine);
  const bool is_marked = waiting.work_ns > 0;
  const double overlapped_share =
      is_marked ? 1 - std::min(ratio(mean.fetch_exposed_ns, mean.fetch_ns), 1.0)
                : ratio(mean.io_overlapped_ns, mean.io_ns);
  const bool loads_alone = is_marked && loading.threads == 0;
  constexpr uint64_t kWorkersForStorage = 8;
  const bool for_storage = is_marked && loading.threads > 0 &&
                           loading.threads < kWorkersForStorage &&
                           waits_for_storage(profile, machine, waiting);
  if (for_storage && reads_behind_lock(profile)) return {};  // few-reads-in-flight
  const bool has_workers = !is_marked || !cores || (loading.threads >= *cores && !for_storage);
  if (!loads_alone && overlapped_share >= kOverlappedShareMax && has_workers) return {};
  const uint64_t saved_ns = saved_by_workers(profile, machine, waiting);
  if (waiting.share(saved_ns) < kSavedShareMin) return {};

  Finding finding;
  finding.title =
      loads_alone   ? "batches are not prefetched: the training process loads them itself"
      : has_workers ? "batches are not prefetched: loading does not overlap with compute"
      : for_storage
          ? fmt::format("little prefetch: {} for reads that wait for storage",
                        counted(loading.threads, "worker", "workers"))
          : fmt::format("little prefetch: {} for {}", counted(loading.threads, "worker", "workers"),
                        counted(*cores, "core", "cores"));
  finding.evidence = {{fmt::format("a rank waits {} for data, {}", duration(waiting.data_ns),
                                   waiting.part(waiting.data_ns)),
                       "time.mean"},
                      {fmt::format("{} of the loading overlaps with compute, which takes {}",
                                   format_percent(overlapped_share), duration(mean.compute_ns)),
                       "time.mean"}};
  finding.threshold =
      "no worker, fewer workers than cores, or less than 25 % of the loading overlapped; 10 % of "
      "training time to gain: a loader that is one batch ahead overlaps all of the shorter of "
      "loading and compute";
  finding.changes =
      Changes(profile, machine)
          .pytorch(pytorch_change(profile, for_storage ? kWorkersForStorage : cores.value_or(4)))
          .tf_data("end the pipeline with .prefetch(tf.data.AUTOTUNE)")
          .hdf5(
              "open the file in each worker process: the threads of one process share HDF5's "
              "global lock")
          .loader("use millrace.DataLoader: it prefetches batches on its own threads")
          .take();
  finding.gain = gain_of(
      waiting, saved_ns,
      cores ? fmt::format(
                  "waiting and compute, minus the longest of compute, loading by "
                  "{}, and all code on {}",
                  counted(std::max(for_storage ? 4 * loading.threads : *cores, loading.threads),
                          "worker", "workers"),
                  counted(*cores, "core", "cores"))
            : "waiting and compute, minus the longer of compute and loading by 4 workers; "
              "the cores are not known");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
