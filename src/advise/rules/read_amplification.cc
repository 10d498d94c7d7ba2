// read-amplification: an epoch reads more bytes than the dataset has.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_read_amplification(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kAmplificationMin = 1.5;
  const Waiting waiting = waiting_of(profile);
  const analyze::Job& job = profile.job;
  // Without marked epochs, every further epoch would look like amplification.
  if (job.epochs == 0 || job.dataset_unique_bytes == 0) return {};
  const double amplification = ratio(job.dataset_bytes_read, job.dataset_unique_bytes * job.epochs);
  const analyze::IoTotals io = data_totals(profile);
  const uint64_t needless_ns = scaled(io.read_ns, 1 - 1 / std::max(amplification, 1.0));
  const uint64_t saved_ns = waiting.due_to(needless_ns);
  if (amplification < kAmplificationMin || !waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title =
      fmt::format("read amplification: an epoch reads each byte {:.1f} times", amplification);
  finding.evidence = {
      {fmt::format("{} were read in {} {}, of {} of distinct bytes",
                   format_bytes(job.dataset_bytes_read), job.epochs,
                   job.epochs == 1 ? "epoch" : "epochs", format_bytes(job.dataset_unique_bytes)),
       "job"}};
  if (const analyze::AccessCounts& reads = profile.data_reads.counts; reads.transitions > 0) {
    finding.evidence.push_back(
        {fmt::format("of {} reads that follow another in the same file, {} go back or skip bytes",
                     format_exact(reads.transitions),
                     format_percent(1 - ratio(reads.consecutive, reads.transitions))),
         "data_reads"});
  }
  finding.threshold =
      "1.5 times: an epoch needs each byte once, and headers and indexes of formats add a few "
      "percent";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "read each sample in one call; keep what neighbours share (a decompressed chunk, an "
              "index) in the worker instead of reading it again")
          .tf_data(
              "read each record once and branch after it, instead of two datasets over the same "
              "files")
          .hdf5(
              "store one sample per chunk, or use a chunk cache that keeps a chunk until all of "
              "its samples are used (H5Pset_chunk_cache): otherwise a chunk is read again for each "
              "sample")
          .any(
              "use os.pread or buffering=0 for random or backward reads: a buffered file refills "
              "its buffer for each")
          .take();
  finding.gain = gain_of(waiting, saved_ns,
                         "the waiting caused by bytes that are read more than once per epoch");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
