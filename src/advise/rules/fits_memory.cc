// fits-memory: the dataset is read from storage every epoch although it fits in memory.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

std::optional<Rereading> rereading_of(const analyze::Profile& profile) {
  const Waiting waiting = waiting_of(profile);
  const analyze::IoTotals io = data_totals(profile);
  const uint64_t once = std::max(profile.job.dataset_unique_bytes, uint64_t{1});
  if (io.bytes_read < once + once / 2 || waiting.share(waiting.io_ns) < kWaitShareMin) return {};
  if (!waiting.matters(time_of(io))) return {};
  // Reads after the first pass: the later epochs, if epochs are known.
  uint64_t bytes = 0;
  uint64_t time_ns = 0;
  for (size_t i = 1; i < profile.epochs.size(); ++i) {
    bytes += profile.epochs[i].io.bytes_read;
    time_ns += profile.epochs[i].io.read_ns + profile.epochs[i].io.metadata_ns;
  }
  if (bytes == 0) {
    bytes = io.bytes_read - once;
    time_ns = scaled(time_of(io), ratio(bytes, io.bytes_read));
  }
  // As fast as the page cache: the data is already in memory.
  if (bytes == 0 || time_ns <= time_at(bytes, kCacheBytesPerSecond)) return {};
  const uint64_t left_ns = time_at(bytes, kCacheBytesPerSecond);
  return Rereading{.bytes = bytes, .saved_ns = waiting.due_to(time_ns - left_ns)};
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
              "copy the dataset to memory before training: cp -r {} /dev/shm/, and read it from "
              "there; or keep the samples in one shared tensor that the workers inherit",
              data_directory(profile)))
          .tf_data("add .cache() after decoding if the decoded values fit, otherwise before it")
          .hdf5(
              "open files with driver='core' in h5py (H5Pset_fapl_core): it reads the file into "
              "memory")
          .store(
              "millrace store (coming) keeps the dataset in memory, a part on each host, under the "
              "same paths")
          .take();
  finding.gain = gain_of(waiting, again->saved_ns,
                         "the waiting caused by reads after the first time, minus copying the "
                         "bytes from memory at 2 GB/s");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
