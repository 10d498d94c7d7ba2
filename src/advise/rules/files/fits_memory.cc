// fits-memory: the dataset is read from storage every epoch although it fits in memory.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// What to copy: the file if there is only one, else the directory.
std::string what_to_copy(const analyze::Profile& profile) {
  const analyze::FileStats* file = most_read_file(profile);
  if (file != nullptr && 10 * file->io.bytes_read >= 9 * profile.job.dataset_bytes_read) {
    return file->path;
  }
  return "-r " + data_directory(profile);
}

}  // namespace

std::optional<Rereading> rereading_of(const analyze::Profile& profile) {
  const Waiting waiting = waiting_of(profile);
  const analyze::IoTotals io = data_totals(profile);
  // In one epoch, ranks that read the same bytes once each do not reread them: see same-bytes.
  uint64_t by_ranks = 0;
  for (const analyze::RankLoad& rank : profile.ranks) {
    if (profile.job.epochs > 1) break;
    by_ranks += std::min(rank.data_bytes_read, profile.job.dataset_unique_bytes);
  }
  const uint64_t once = std::max({profile.job.dataset_unique_bytes, by_ranks, uint64_t{1}});
  if (io.bytes_read < once + once / 2 || waiting.share(waiting.io_ns) < kWaitShareMin) return {};
  // Reads from the page cache do not wait: they copy, after a system call.
  if (io.reads == 0 || io.read_ns / io.reads < kCachedReadNs) return {};
  // Reads after the first pass: the later epochs, if epochs are known.
  uint64_t bytes = 0;
  uint64_t reads = 0;
  uint64_t time_ns = 0;
  for (size_t i = 1; i < profile.epochs.size(); ++i) {
    bytes += profile.epochs[i].io.bytes_read;
    reads += profile.epochs[i].io.reads;
    time_ns += profile.epochs[i].io.read_ns;
  }
  if (bytes == 0) {
    bytes = io.bytes_read - once;
    const double share = ratio(bytes, io.bytes_read);
    reads = scaled(io.reads, share);
    time_ns = scaled(io.read_ns, share);
  }
  const uint64_t left_ns = time_at(bytes, kCacheBytesPerSecond) + reads * kCachedReadNs;
  if (bytes == 0 || time_ns <= left_ns) return {};
  const uint64_t saved_ns = waiting.due_to(time_ns - left_ns);
  if (waiting.share(saved_ns) < kWaitShareMin) return {};
  return Rereading{.bytes = bytes, .saved_ns = saved_ns};
}

Judged judge_fits_memory(const analyze::Profile& profile, const Machine& machine) {
  const analyze::Job& job = profile.job;
  if (!machine.memory_bytes || machine.data_storage == Storage::kMemory) return {};
  const uint64_t hosts = std::max<uint64_t>(job.hosts.size(), 1);
  const uint64_t room = *machine.memory_bytes / 2;
  const uint64_t size = std::max(job.dataset_bytes, job.dataset_unique_bytes);
  if (size == 0 || size > room * hosts) return {};
  const auto again = rereading_of(profile);
  if (!again) return {};

  const Waiting waiting = waiting_of(profile);
  const bool on_each = size <= room;
  Finding finding;
  finding.title = on_each ? "the dataset fits in memory but is reread every epoch"
                          : "the dataset fits in the combined memory but is reread every epoch";
  finding.evidence = {
      {fmt::format("the dataset is {} in {} files; each host has {} of memory, all together {}",
                   format_bytes(size), format_exact(job.dataset_files),
                   format_bytes(*machine.memory_bytes),
                   format_bytes(*machine.memory_bytes * hosts)),
       "job"},
      {fmt::format("{} were read again after the first time, slower than from memory",
                   format_bytes(again->bytes)),
       "epochs"}};
  finding.threshold =
      "at most half of the memory, which leaves the other half to the program; read 1.5 times or "
      "more, and slower than 2 GB/s, so the page cache did not keep it";
  finding.changes =
      Changes(profile, machine)
          .pytorch(fmt::format(
              "copy the dataset to memory before training: cp {} /dev/shm/, and read it from "
              "there; or keep the samples in one shared tensor that the workers inherit",
              what_to_copy(profile)))
          .tf_data("add .cache() after decoding if the decoded values fit, otherwise before it")
          .hdf5(
              "open files with driver='core' in h5py (H5Pset_fapl_core): it reads the file into "
              "memory")
          .store(
              fmt::format("keep it in memory, under the same paths: {}", store_commands(profile)))
          .take();
  finding.gain = gain_of(waiting, again->saved_ns,
                         "the waiting caused by reads after the first time, minus copying the "
                         "bytes from memory at 2 GB/s");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
