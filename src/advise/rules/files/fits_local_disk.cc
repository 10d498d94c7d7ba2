// fits-local-disk: the dataset is read over the network although it fits on local disks.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/units.h"

namespace millrace::advise {

Judged judge_fits_local_disk(const analyze::Profile& profile, const Machine& machine) {
  const analyze::Job& job = profile.job;
  if (!machine.local_disk_bytes || !is_shared_storage(profile, machine)) return {};
  const uint64_t hosts = std::max<uint64_t>(job.hosts.size(), 1);
  const uint64_t room = *machine.local_disk_bytes / 10 * 8;
  const uint64_t size = std::max(job.dataset_bytes, job.dataset_unique_bytes);
  if (size == 0 || size > room * hosts) return {};
  const auto again = rereading_of(profile);
  if (!again) return {};

  constexpr uint64_t kDiskBytesPerSecond = 1'000'000'000;
  const Waiting waiting = waiting_of(profile);
  const uint64_t left_ns = time_at(again->bytes / hosts, kDiskBytesPerSecond);
  Finding finding;
  finding.title = size <= room
                      ? "the dataset fits on a local disk but is read over the network"
                      : "the dataset fits on the combined local disks but is read over the network";
  finding.evidence = {
      {fmt::format("the dataset is {}; a local disk has {} free, all together {}",
                   format_bytes(size), format_bytes(*machine.local_disk_bytes),
                   format_bytes(*machine.local_disk_bytes * hosts)),
       "job"},
      {fmt::format("{} were read again after the first time, from storage that all hosts share",
                   format_bytes(again->bytes)),
       "epochs"}};
  finding.threshold =
      "at most 80 % of the free space, because full file systems are slow; read 1.5 times or more, "
      "so that a copy pays off within the job";
  finding.changes =
      Changes(profile, machine)
          .any(fmt::format(
              "copy the dataset to the local disk at the start of the job, once per host: cp -r {} "
              "$TMPDIR/, and train from there",
              data_directory(profile)))
          .tf_data("cache on the local disk: .cache(filename) copies it in the first epoch")
          .store(fmt::format("keep it on the local disk under the same paths (--local $TMPDIR): {}",
                             store_commands(profile)))
          .take();
  finding.gain = gain_of(
      waiting, again->saved_ns - std::min(again->saved_ns, left_ns),
      "the waiting caused by reads after the first time, minus reading the same from a local disk "
      "at 1 GB/s");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
