// read-amplification: an epoch reads more bytes than the dataset has, or HDF5 reads more than it
// returns.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

struct Hdf5Use {
  uint64_t returned_bytes = 0;
  uint64_t read_bytes = 0;  // from its files
  uint64_t read_ns = 0;

  double used() const { return ratio(returned_bytes, read_bytes); }
};

Hdf5Use hdf5_use(const Case& given) {
  Hdf5Use use;
  for (const analyze::LayerStats& layer : given.profile.layers) {
    if (layer.layer == analyze::Layer::kFormat) use.returned_bytes = layer.bytes_read;
  }
  for (const analyze::GroupStats& group : given.profile.extensions) {
    if (!is_hdf5_name(group.name)) continue;
    use.read_bytes += group.io.bytes_read;
    use.read_ns += group.io.read_ns;
  }
  return use;
}

// HDF5 reads whole chunks, and a buffer of 64 KiB for a few values of a contiguous dataset.
Finding wasted_hdf5_text(const Case& given, const Hdf5Use& use) {
  return {
      .kind = "read amplification",
      .details = fmt::format("HDF5 reads {:.0f} times what it returns", 1 / use.used()),
      .evidence = {at("layers", "HDF5 read {} and returned {}: {} was used",
                      format_bytes(use.read_bytes), format_bytes(use.returned_bytes),
                      format_percent(use.used())),
                   at("extensions", "these reads took {} of the {} in data reads",
                      duration(use.read_ns), duration(given.io.read_ns))},
      .threshold = "half of the bytes that HDF5 reads are unused",
      .changes =
          {{"any",
            "store the values of a sample together: the axis of the samples first, one sample per "
            "chunk (h5repack -l CHUNK=1x..., or create_dataset(..., chunks=(1, ...)))"},
           {"hdf5",
            "if chunks hold several samples, make the chunk cache large enough: "
            "H5Pset_chunk_cache(dapl, 12421, 64 << 20, 1.0); h5py.File(..., rdcc_nbytes=64 << 20)"}},
      .gain = {.how = "the waiting caused by reads of unused bytes"}};
}

Judged judge_hdf5(const Case& given) {
  const Hdf5Use use = hdf5_use(given);
  const uint64_t saved_ns = given.waiting.due_to(scaled(use.read_ns, 1 - use.used()));
  if (!wastes_hdf5_reads(given) || !given.waiting.matters(saved_ns)) return {};
  return less_waiting(given.waiting, saved_ns, wasted_hdf5_text(given, use));
}

Finding read_amplification_text(const Case& given, double amplification) {
  Finding text = {
      .kind = "read amplification",
      .details = fmt::format("an epoch reads each byte {:.1f} times", amplification),
      .evidence = {at("job", "{} were read in {} {}, of {} of distinct bytes",
                      format_bytes(given.job.dataset_bytes_read), given.job.epochs,
                      given.job.epochs == 1 ? "epoch" : "epochs",
                      format_bytes(given.job.dataset_unique_bytes))},
      .threshold =
          "1.5 times: an epoch needs each byte once, and headers and indexes of formats add a few "
          "percent",
      .changes =
          {{"pytorch",
            "read each sample in one call; keep what neighbours share (a decompressed chunk, an "
            "index) in the worker instead of reading it again"},
           {"tf.data",
            "read each record once and branch after it, instead of two datasets over the same "
            "files"},
           {"hdf5",
            "store one sample per chunk, or use a chunk cache that keeps a chunk until all of its "
            "samples are used (H5Pset_chunk_cache): otherwise a chunk is read again for each "
            "sample"},
           {"any",
            "use os.pread or buffering=0 for random or backward reads: a buffered file refills its "
            "buffer for each"}},
      .gain = {.how = "the waiting caused by bytes that are read more than once per epoch"}};
  if (const analyze::AccessCounts& reads = given.profile.data_reads.counts; reads.transitions > 0) {
    text.evidence.push_back(at(
        "data_reads", "of {} reads that follow another in the same file, {} go back or skip bytes",
        format_exact(reads.transitions),
        format_percent(1 - ratio(reads.consecutive, reads.transitions))));
  }
  return text;
}

}  // namespace

bool wastes_hdf5_reads(const Case& given) {
  const Hdf5Use use = hdf5_use(given);
  return use.returned_bytes > 0 && 2 * use.returned_bytes <= use.read_bytes;
}

Judged judge_read_amplification(const Case& given) {
  if (auto finding = judge_hdf5(given)) return finding;
  constexpr double kAmplificationMin = 1.5;
  // Without marked epochs, every further epoch would look like amplification.
  if (given.job.epochs == 0 || given.job.dataset_unique_bytes == 0) return {};
  const double amplification =
      ratio(given.job.dataset_bytes_read, given.job.dataset_unique_bytes * given.job.epochs);
  const uint64_t needless_ns = scaled(given.io.read_ns, 1 - 1 / std::max(amplification, 1.0));
  const uint64_t saved_ns = given.waiting.due_to(needless_ns);
  if (amplification < kAmplificationMin || !given.waiting.matters(saved_ns)) return {};
  return less_waiting(given.waiting, saved_ns, read_amplification_text(given, amplification));
}

}  // namespace millrace::advise
