// read-amplification: more bytes are read in an epoch than the dataset has.
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
  // Without epochs every epoch would look like amplification.
  if (job.epochs == 0 || job.dataset_unique_bytes == 0) return {};
  const double amplification = ratio(job.dataset_bytes_read, job.dataset_unique_bytes * job.epochs);
  const analyze::IoTotals io = data_totals(profile);
  const uint64_t needless_ns = scaled(io.read_ns, 1 - 1 / std::max(amplification, 1.0));
  if (amplification < kAmplificationMin || !waiting.matters(needless_ns)) return {};

  Finding finding;
  finding.title = fmt::format("an epoch reads its bytes {:.1f} times", amplification);
  finding.evidence = {
      {fmt::format("{} were read in {} {}, of {} of different bytes",
                   format_bytes(job.dataset_bytes_read), job.epochs,
                   job.epochs == 1 ? "epoch" : "epochs", format_bytes(job.dataset_unique_bytes)),
       "job"}};
  if (const analyze::AccessCounts& reads = profile.data_reads.counts; reads.transitions > 0) {
    finding.evidence.push_back(
        {fmt::format("of {} reads that followed another in their file, {} went back or skipped",
                     format_exact(reads.transitions),
                     format_percent(1 - ratio(reads.consecutive, reads.transitions))),
         "data_reads"});
  }
  finding.threshold =
      "1.5 times: a pass over a dataset reads each byte once, and heads and indexes of "
      "formats add a few percent";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "read what a sample needs in one call; keep what neighbours share (a decompressed chunk, "
              "an index) in the worker instead of reading it again")
          .tf_data(
              "read each record once and branch behind it, instead of two datasets over the same "
              "files")
          .hdf5(
              "a chunk that holds several samples is read again for each: a chunk a sample, or a chunk "
              "cache that holds a chunk until all of its samples are used (H5Pset_chunk_cache)")
          .any(
              "reading backwards or at random through a buffered file reads its buffer anew each time: "
              "os.pread, or buffering=0")
          .take();
  finding.gain = gain_of(waiting, waiting.due_to(needless_ns),
                         "the part of waiting that bytes read more than once an epoch account for");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
