// random-access: small random reads from storage that is slow at them.
#include <fmt/core.h>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// The bandwidth of one sequential reader.
uint64_t sequential_bytes_per_second(Storage storage) {
  return storage == Storage::kRotating ? 150'000'000 : 500'000'000;
}

bool is_slow_at_seeks(Storage storage) {
  return storage == Storage::kRotating || storage == Storage::kParallel ||
         storage == Storage::kNetwork;
}

Finding random_access_text(const Case& given, bool within) {
  return {
      .kind = "small random reads",
      .details =
          fmt::format("{} each from {} storage", format_bytes(given.io.bytes_read / given.io.reads),
                      kStorageNames[static_cast<size_t>(given.machine.data_storage)]),
      .evidence = {{within ? fmt::format(
                                 "{} of the reads within files go forward, {} are sequential",
                                 format_percent(ratio(given.profile.data_reads.counts.sequential,
                                                      given.profile.data_reads.counts.transitions)),
                                 format_percent(ratio(given.profile.data_reads.counts.consecutive,
                                                      given.profile.data_reads.counts.transitions)))
                           : fmt::format("{} files are read in a new order every epoch",
                                         format_exact(given.profile.data.files_read)),
                    within ? "data_reads" : "data"},
                   at("kinds:data", "a read takes {}; a thread reaches {}",
                      duration(given.io.read_ns / given.io.reads),
                      format_bandwidth(ratio(given.io.bytes_read, given.io.read_ns) * 1e9))},
      .threshold =
          given.machine.data_storage == Storage::kRotating
              ? "reads under 1 MiB, less than three quarters of them forward (random reads: half): a "
                "seek of 8 ms costs as much as reading 1 MiB sequentially"
              : "reads under 1 MiB, less than three quarters of them forward (random reads: half): "
                "the client cannot read ahead, and the servers seek for all jobs at once; 1 MiB is "
                "one request",
      .changes =
          {{"pytorch",
            "shuffle in two steps: read blocks of neighbouring samples (at least 1 MiB) in random "
            "order, then shuffle the samples of several blocks in a buffer"},
           {"tf.data",
            "shuffle in two steps: shuffle() the list of files, read each sequentially, then "
            "shuffle(10000)"},
           {"loader",
            "use partial local shuffling: millrace.DataLoader(..., "
            "shuffle=millrace.Partial(fraction=0.1)); each rank keeps its shard on local storage, "
            "and exchanges a tenth of it per epoch"},
           {"store", "millrace store: random reads from the memory and local disks of the hosts"}},
      .gain = {
          .how = fmt::format(
              "the waiting caused by these reads, minus reading the same bytes sequentially at {} "
              "per thread",
              format_bandwidth(
                  static_cast<double>(sequential_bytes_per_second(given.machine.data_storage))))}};
}

}  // namespace

Judged judge_random_access(const Case& given) {
  constexpr double kForwardMax = 0.75;  // of random reads, half go forward
  if (!is_slow_at_seeks(given.machine.data_storage) || reads_behind_lock(given)) return {};
  const analyze::AccessCounts& counts = given.profile.data_reads.counts;
  if (given.io.reads < kCallsMin || given.io.bytes_read / given.io.reads >= kMiB) return {};
  const double forward = ratio(counts.sequential, counts.transitions);
  const bool within = counts.transitions >= kCallsMin && forward < kForwardMax;
  // The order of files matters only if files are small: large ones are read sequentially.
  const bool between = given.profile.data.order == analyze::ReadOrder::kShuffled &&
                       given.job.epochs > 1 && given.profile.data.files_read >= kCallsMin &&
                       given.mean_file_bytes < 4 * kMiB;
  if (!within && !between) return {};
  const uint64_t sequential_ns =
      time_at(given.io.bytes_read, sequential_bytes_per_second(given.machine.data_storage));
  if (sequential_ns >= given.io.read_ns) return {};
  const uint64_t saved_ns = given.waiting.due_to(given.io.read_ns - sequential_ns);
  if (!given.waiting.matters(saved_ns)) return {};
  if (given.waiting.share(given.waiting.io_ns) < kWaitShareMin) return {};
  return less_waiting(given.waiting, saved_ns, random_access_text(given, within));
}

}  // namespace millrace::advise
