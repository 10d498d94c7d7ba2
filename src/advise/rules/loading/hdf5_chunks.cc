// hdf5-chunks: HDF5 reads and decompresses whole chunks to return a few rows of each.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {

Judged judge_hdf5_chunks(const analyze::Profile& profile, const Machine& machine) {
  // HDF5 takes 7 us for a row that is a chunk; gzip delivers 200 to 400 MB/s
  // (benchmarks/sample_costs.py).
  constexpr uint64_t kReadNsMin = 100'000;
  constexpr uint64_t kBytesPerSecondMax = 100'000'000;
  constexpr uint64_t kPlainReadNs = 20'000;
  const Waiting waiting = waiting_of(profile);
  const analyze::Loading& loading = profile.loading;
  if (waiting.work_ns == 0 || loading.library_reads < kCallsMin) return {};
  // Nothing is decompressed: see read-amplification.
  if (loading.read_ns > loading.library_ns) return {};
  // Time in HDF5 includes the reads that it makes. Opening files has a rule of its own.
  uint64_t time_ns = 0;
  for (const analyze::FunctionStats& function : profile.functions) {
    const bool reads =
        function.layer == analyze::Layer::kFormat && function.kind == wire::CallKind::kRead;
    if (reads) time_ns += function.time_ns;
  }
  time_ns = std::min(time_ns, loading.library_ns + loading.read_ns);
  const uint64_t read_ns = time_ns / loading.library_reads;
  if (read_ns < kReadNsMin) return {};
  if (time_at(loading.library_bytes, kBytesPerSecondMax) > time_ns) return {};
  const uint64_t left_ns = loading.library_reads * kPlainReadNs;
  const uint64_t saved_ns = waiting.due_to(time_ns - std::min(time_ns, left_ns));
  if (waiting.share(saved_ns) < kWaitShareMin) return {};

  const analyze::FileStats* file = most_read_file(profile);
  const std::string where = file == nullptr ? "loading" : "files:" + file->path;
  Finding finding;
  finding.title =
      fmt::format("HDF5 decompresses whole chunks: {} for a read of {}", duration(read_ns),
                  format_bytes(loading.library_bytes / loading.library_reads));
  finding.evidence = {
      {fmt::format("{} reads returned {}, {} each, and took {} of {} of loading",
                   format_exact(loading.library_reads), format_bytes(loading.library_bytes),
                   format_bytes(loading.library_bytes / loading.library_reads), duration(time_ns),
                   duration(waiting.work_ns)),
       where},
      {fmt::format("of this, HDF5's own code took {}, and its reads of {} from the file {}",
                   duration(loading.library_ns), format_bytes(data_totals(profile).bytes_read),
                   duration(loading.read_ns)),
       "loading"}};
  finding.threshold =
      "100 us a read, and under 100 MB/s: a row that is a chunk takes about 10 us, and gzip delivers "
      "200 to 400 MB/s, so most of what was decompressed was not returned";
  finding.changes =
      Changes(profile, machine)
          .any(
              "store one sample per chunk: h5repack -l DATASET:CHUNK=1x... IN OUT, or "
              "create_dataset(..., chunks=(1, ...)); without compression if space allows (-f NONE)")
          .hdf5(
              "if the file must stay: read a whole chunk and shuffle its rows in memory, or a chunk "
              "cache that holds the file: h5py.File(path, rdcc_nbytes=1 << 30, rdcc_nslots=100003)")
          .take();
  finding.gain = gain_of(waiting, saved_ns,
                         "the waiting for these reads, minus 20 us for each: a chunk of one row");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
