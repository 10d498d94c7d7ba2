// hdf5-chunks: HDF5 reads and decompresses whole chunks to return a few rows of each.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

Finding hdf5_chunks_text(const Case& given, uint64_t time_ns) {
  const std::string where =
      given.most_read == nullptr ? "loading" : "files:" + given.most_read->path;
  return {
      .kind = "HDF5 decompresses whole chunks",
      .details =
          fmt::format("{} for a read of {}", duration(time_ns / given.loading.library_reads),
                      format_bytes(given.loading.library_bytes / given.loading.library_reads)),
      .evidence = {at(where, "{} reads returned {}, {} each, and took {} of {} of loading",
                      format_exact(given.loading.library_reads),
                      format_bytes(given.loading.library_bytes),
                      format_bytes(given.loading.library_bytes / given.loading.library_reads),
                      duration(time_ns), duration(given.waiting.work_ns)),
                   at("loading",
                      "of this, HDF5's own code took {}, and its reads of {} from the file {}",
                      duration(given.loading.library_ns), format_bytes(given.io.bytes_read),
                      duration(given.loading.read_ns))},
      .threshold =
          "100 us a read, and under 100 MB/s: a row that is a chunk takes about 10 us, and gzip "
          "delivers 200 to 400 MB/s, so most of what was decompressed was not returned",
      .changes =
          {{"any",
            "store one sample per chunk: h5repack -l DATASET:CHUNK=1x... IN OUT, or "
            "create_dataset(..., chunks=(1, ...)); without compression if space allows (-f NONE)"},
           {"hdf5",
            "if the file must stay: read a whole chunk and shuffle its rows in memory, or a chunk "
            "cache that holds the file: h5py.File(path, rdcc_nbytes=1 << 30, rdcc_nslots=100003)"}},
      .gain = {.how = "the waiting for these reads, minus 20 us for each: a chunk of one row"}};
}

}  // namespace

Judged judge_hdf5_chunks(const Case& given) {
  // HDF5 takes 7 us for a row that is a chunk; gzip delivers 200 to 400 MB/s
  // (benchmarks/sample_costs.py).
  constexpr uint64_t kReadNsMin = 100'000;
  constexpr uint64_t kBytesPerSecondMax = 100'000'000;
  constexpr uint64_t kPlainReadNs = 20'000;
  if (given.waiting.work_ns == 0 || given.loading.library_reads < kCallsMin) return {};
  // Nothing is decompressed: see read-amplification.
  if (given.loading.read_ns > given.loading.library_ns) return {};
  // Time in HDF5 includes the reads that it makes. Opening files has a rule of its own.
  uint64_t time_ns = 0;
  for (const analyze::FunctionStats& function : given.profile.functions) {
    const bool reads =
        function.layer == analyze::Layer::kFormat && function.kind == wire::CallKind::kRead;
    if (reads) time_ns += function.time_ns;
  }
  time_ns = std::min(time_ns, given.loading.library_ns + given.loading.read_ns);
  const uint64_t read_ns = time_ns / given.loading.library_reads;
  if (read_ns < kReadNsMin) return {};
  if (time_at(given.loading.library_bytes, kBytesPerSecondMax) > time_ns) return {};
  const uint64_t left_ns = given.loading.library_reads * kPlainReadNs;
  const uint64_t saved_ns = given.waiting.due_to(minus(time_ns, left_ns));
  if (given.waiting.share(saved_ns) < kWaitShareMin) return {};
  return less_waiting(given.waiting, saved_ns, hdf5_chunks_text(given, time_ns));
}

}  // namespace millrace::advise
