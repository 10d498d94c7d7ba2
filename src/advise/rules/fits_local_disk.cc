// fits-local-disk: the dataset would fit onto the nodes' own disks, and is read over the network.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {

Judged judge_fits_local_disk(const analyze::Profile& profile, const Machine& machine) {
  const analyze::Job& job = profile.job;
  if (!machine.local_disk_bytes || !is_shared_storage(profile, machine)) return {};
  const uint64_t nodes = std::max<uint64_t>(job.hosts.size(), 1);
  const uint64_t room = *machine.local_disk_bytes / 10 * 8;
  const uint64_t size = std::max(job.dataset_bytes, job.dataset_unique_bytes);
  if (size == 0 || size > room * nodes) return {};
  const auto again = rereading_of(profile);
  if (!again) return {};

  constexpr uint64_t kDiskBytesPerSecond = 1'000'000'000;
  const Waiting waiting = waiting_of(profile);
  const uint64_t left_ns = time_at(again->bytes / nodes, kDiskBytesPerSecond);
  Finding finding;
  finding.title = size <= room
                      ? "the dataset fits onto a node's own disk, and is read over the network"
                      : "the dataset fits onto the nodes' own disks together, and is read over "
                        "the network";
  finding.evidence = {
      {fmt::format("the dataset is {}; {} are free on a node's disk, {} in all", format_bytes(size),
                   format_bytes(*machine.local_disk_bytes),
                   format_bytes(*machine.local_disk_bytes * nodes)),
       "job"},
      {fmt::format("{} were read after the first time, from storage that all nodes share",
                   format_bytes(again->bytes)),
       "epochs"}};
  finding.threshold =
      "at most 80 % of the free space, as file systems slow down when they are full; "
      "read 1.5 times or more, so that copying it pays within the job";
  finding.changes =
      Changes(profile, machine)
          .any(fmt::format(
              "copy it at the start of the job, once a node: cp -r {} $TMPDIR/, and train "
              "from there",
              data_directory(profile)))
          .tf_data(".cache(filename on the local disk) does it in the first epoch")
          .store(
              "millrace store (coming) spreads it over the nodes' disks under the same paths, also "
              "where it does not fit onto one")
          .take();
  finding.gain = gain_of(
      waiting, again->saved_ns - std::min(again->saved_ns, left_ns),
      "the part of waiting that reading after the first time accounts for, less reading the "
      "same from a local disk at 1 GB/s");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
