// little-prefetch: batches are loaded only when training already waits for them, or by too few
// workers.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// Whether more workers than cores help: most of loading waits for storage that serves many reads.
bool waits_for_storage(const Case& given) {
  return 2 * given.stored_reads_ns > given.waiting.work_ns && !given.may_serve_one;
}

// A mean rank, with workers on all of its cores. 0: it cannot become faster.
uint64_t saved_by_workers(const Case& given) {
  constexpr uint64_t kWorkersUsual = 4;
  const uint64_t compute_ns = given.profile.time.mean.compute_ns;
  if (given.waiting.work_ns == 0) {
    // What loading does besides I/O is not known: with enough prefetch the two overlap.
    const analyze::TimeSplit& mean = given.profile.time.mean;
    return std::min(
        {given.waiting.data_ns, minus(compute_ns, mean.io_overlapped_ns), mean.io_exposed_ns});
  }
  const uint64_t now_ns = given.waiting.steady_ns + compute_ns;
  const uint64_t load_ns = given.waiting.work_ns / given.ranks;
  uint64_t workers = std::max(given.cores.value_or(kWorkersUsual), given.loading.threads);
  if (waits_for_storage(given)) workers = std::max(workers, 4 * given.loading.threads);
  const uint64_t stored_ns = given.stored_reads_ns / given.ranks;
  const uint64_t code_ns = minus(load_ns, stored_ns);
  // New workers have to hand batches over: with torch 1.13 on 2 cores, one of 256 KiB takes 1.4 ms
  // of a worker and 0.7 ms of the training process, which an accelerator does not wait for.
  constexpr uint64_t kGiveNs = 1'000'000;
  constexpr uint64_t kTakeNs = 500'000;
  const uint64_t batches = given.loading.threads == 0 ? given.loading.batches / given.ranks : 0;
  const bool on_host = given.profile.time.compute_basis == analyze::ComputeBasis::kRegions;
  const uint64_t train_ns = compute_ns + (on_host ? batches * kTakeNs : 0);
  const uint64_t given_ns = batches * kGiveNs;
  uint64_t then_ns = std::max(train_ns, (load_ns + given_ns) / workers);
  if (given.may_serve_one) then_ns = std::max(then_ns, stored_ns);
  // Some more for what shares the cores.
  const uint64_t loaded_ns = std::max(code_ns + code_ns / 8, code_ns + given_ns);
  if (given.cores) then_ns = std::max(then_ns, (loaded_ns + train_ns) / *given.cores);
  return std::min(minus(now_ns, then_ns), given.waiting.steady_ns);
}

std::string prefetch_change(const Case& given, uint64_t workers) {
  if (given.loads_between_steps) {
    return "train on each batch as it comes: list(loader) and sorted(loader) load an epoch before "
           "its first step; sort in a batch_sampler instead";
  }
  return fmt::format(
      "prefetch with workers: DataLoader(..., num_workers={}, prefetch_factor=4, "
      "persistent_workers=True)",
      workers);
}

constexpr uint64_t kWorkersForStorage = 8;

struct Prefetch {
  double overlapped_share = 0;  // of loading
  bool loads_alone = false;     // in the training process
  bool for_storage = false;     // more workers would wait for it at once
  bool has_workers = false;     // enough of them
};

Finding little_prefetch_text(const Case& given, const Prefetch& seen) {
  const std::string workers = counted(given.loading.threads, "worker", "workers");
  const std::string cores = counted(given.cores.value_or(0), "core", "cores");
  return {
      .kind =
          seen.loads_alone || seen.has_workers ? "batches are not prefetched" : "little prefetch",
      .details = seen.loads_alone   ? "the training process loads them itself"
                 : seen.has_workers ? "loading does not overlap with compute"
                 : seen.for_storage ? workers + " for reads that wait for storage"
                                    : workers + " for " + cores,
      .evidence = {waiting_for_data(given),
                   at("time.mean", "{} of the loading overlaps with compute, which takes {}",
                      format_percent(seen.overlapped_share),
                      duration(given.profile.time.mean.compute_ns))},
      .threshold =
          "no worker, fewer workers than cores, or less than 25 % of the loading overlapped; 10 % "
          "of training time to gain: a loader that is one batch ahead overlaps all of the shorter "
          "of loading and compute",
      .changes = {{"pytorch", prefetch_change(given, seen.for_storage ? kWorkersForStorage
                                                                      : given.cores.value_or(4))},
                  {"tf.data", "end the pipeline with .prefetch(tf.data.AUTOTUNE)"},
                  {"hdf5",
                   "open the file in each worker process: the threads of one process share HDF5's "
                   "global lock"},
                  {"loader", "use millrace.DataLoader: it prefetches batches on its own threads"}},
      .gain = {
          .how = given.cores
                     ? fmt::format("waiting and compute, minus the longest of compute, loading by "
                                   "{}, and all code on {}",
                                   counted(std::max(seen.for_storage ? 4 * given.loading.threads
                                                                     : *given.cores,
                                                    given.loading.threads),
                                           "worker", "workers"),
                                   cores)
                     : "waiting and compute, minus the longer of compute and loading by 4 workers; "
                       "the cores are not known"}};
}

}  // namespace

Judged judge_little_prefetch(const Case& given) {
  constexpr double kOverlappedShareMax = 0.25;
  constexpr double kSavedShareMin = 0.1;  // workers cost memory and time to start
  const analyze::TimeSplit& mean = given.profile.time.mean;
  // Without marked regions, it is unknown what could overlap.
  if (given.profile.time.basis != analyze::WaitBasis::kRegions || mean.compute_ns == 0) return {};
  if (given.waiting.share(given.waiting.steady_ns) < kWaitShareMin) return {};
  const bool is_marked = given.waiting.work_ns > 0;
  Prefetch seen;
  seen.overlapped_share = is_marked ? 1 - std::min(ratio(mean.fetch_exposed_ns, mean.fetch_ns), 1.0)
                                    : ratio(mean.io_overlapped_ns, mean.io_ns);
  seen.loads_alone = is_marked && given.loading.threads == 0;
  seen.for_storage = is_marked && given.loading.threads > 0 &&
                     given.loading.threads < kWorkersForStorage && waits_for_storage(given);
  if (seen.for_storage && reads_behind_lock(given)) return {};  // few-reads-in-flight
  seen.has_workers =
      !is_marked || !given.cores || (given.loading.threads >= *given.cores && !seen.for_storage);
  if (!seen.loads_alone && seen.overlapped_share >= kOverlappedShareMax && seen.has_workers)
    return {};
  const uint64_t saved_ns = saved_by_workers(given);
  if (given.waiting.share(saved_ns) < kSavedShareMin) return {};
  return less_waiting(given.waiting, saved_ns, little_prefetch_text(given, seen));
}

}  // namespace millrace::advise
