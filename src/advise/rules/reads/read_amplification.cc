// read-amplification: an epoch reads more bytes than the dataset has, or HDF5 reads more than it
// returns.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

struct Hdf5Use {
  uint64_t returned_bytes = 0;
  uint64_t read_bytes = 0;  // from its files
  uint64_t read_ns = 0;

  double used() const { return ratio(returned_bytes, read_bytes); }
};

Hdf5Use hdf5_use(const analyze::Profile& profile) {
  Hdf5Use use;
  for (const analyze::LayerStats& layer : profile.layers) {
    if (layer.layer == analyze::Layer::kFormat) use.returned_bytes = layer.bytes_read;
  }
  for (const analyze::GroupStats& group : profile.extensions) {
    if (!is_hdf5_name(group.name)) continue;
    use.read_bytes += group.io.bytes_read;
    use.read_ns += group.io.read_ns;
  }
  return use;
}

// HDF5 reads whole chunks, and a buffer of 64 KiB for a few values of a contiguous dataset.
Judged judge_hdf5(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const Hdf5Use use = hdf5_use(profile);
  const uint64_t saved_ns = waiting.due_to(scaled(use.read_ns, 1 - use.used()));
  if (!wastes_hdf5_reads(profile) || !waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title =
      fmt::format("read amplification: HDF5 reads {:.0f} times what it returns", 1 / use.used());
  finding.evidence = {
      {fmt::format("HDF5 read {} and returned {}: {} was used", format_bytes(use.read_bytes),
                   format_bytes(use.returned_bytes), format_percent(use.used())),
       "layers"},
      {fmt::format("these reads took {} of the {} in data reads", duration(use.read_ns),
                   duration(data_totals(profile).read_ns)),
       "extensions"}};
  finding.threshold = "half of the bytes that HDF5 reads are unused";
  finding.changes =
      Changes(profile, machine)
          .any(
              "store the values of a sample together: the axis of the samples first, one sample per "
              "chunk (h5repack -l CHUNK=1x..., or create_dataset(..., chunks=(1, ...)))")
          .hdf5(
              "if chunks hold several samples, make the chunk cache large enough: "
              "H5Pset_chunk_cache(dapl, 12421, 64 << 20, 1.0); h5py.File(..., rdcc_nbytes=64 << 20)")
          .take();
  finding.gain = gain_of(waiting, saved_ns, "the waiting caused by reads of unused bytes");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace

bool wastes_hdf5_reads(const analyze::Profile& profile) {
  const Hdf5Use use = hdf5_use(profile);
  return use.returned_bytes > 0 && 2 * use.returned_bytes <= use.read_bytes;
}

Judged judge_read_amplification(const analyze::Profile& profile, const Machine& machine) {
  if (auto finding = judge_hdf5(profile, machine)) return finding;
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
