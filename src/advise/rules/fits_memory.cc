// fits-memory: the dataset would fit into the memory of the nodes, and is fetched every epoch.
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
  // Readings after the first: epoch by epoch where they are known.
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
  // As quick as the page cache: it is in memory already, whatever it was read from.
  if (bytes == 0 || time_ns <= time_at(bytes, kCacheBytesPerSecond)) return {};
  const uint64_t left_ns = time_at(bytes, kCacheBytesPerSecond);
  return Rereading{.bytes = bytes, .saved_ns = waiting.due_to(time_ns - left_ns)};
}

Judged judge_fits_memory(const analyze::Profile& profile, const Machine& machine) {
  const analyze::Job& job = profile.job;
  if (!machine.memory_bytes || machine.data_storage == Storage::kMemory) return {};
  const uint64_t nodes = std::max<uint64_t>(job.hosts.size(), 1);
  const uint64_t room = *machine.memory_bytes / 2;
  const uint64_t size = std::max(job.dataset_bytes, job.dataset_unique_bytes);
  if (size == 0 || size > room * nodes) return {};
  const auto again = rereading_of(profile);
  if (!again) return {};

  const Waiting waiting = waiting_of(profile);
  const bool on_each = size <= room;
  Finding finding;
  finding.title =
      on_each ? "the dataset fits into the memory of a node, and is fetched every epoch"
              : "the dataset fits into the nodes' memory together, and is fetched every epoch";
  finding.evidence = {
      {fmt::format("the dataset is {} in {} files; {} of memory a node, {} in all",
                   format_bytes(size), format_exact(job.dataset_files),
                   format_bytes(*machine.memory_bytes),
                   format_bytes(*machine.memory_bytes * nodes)),
       "job"},
      {fmt::format("{} were read after the first time, slower than memory gives them",
                   format_bytes(again->bytes)),
       "epochs"}};
  finding.threshold =
      "at most half of the memory, which leaves the other half to the program; read 1.5 "
      "times or more, and slower than 2 GB/s, so the page cache did not keep it";
  finding.changes =
      Changes(profile, machine)
          .pytorch(fmt::format(
              "before training: cp -r {} /dev/shm/, and read it there; or hold the samples "
              "in one shared tensor that the workers inherit",
              data_directory(profile)))
          .tf_data(
              ".cache() behind decoding where the values fit, before it where only the bytes do")
          .hdf5("driver='core' in h5py (H5Pset_fapl_core) reads a file into memory as it is opened")
          .store(
              "millrace store (coming) keeps the dataset in the nodes' memory, each node a part, "
              "under the same paths")
          .take();
  finding.gain = gain_of(waiting, again->saved_ns,
                         "the part of waiting that reading after the first time accounts for, less "
                         "copying the bytes from memory at 2 GB/s");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
