// fits-local-disk: the dataset is read over the network although it fits on local disks.
#include <fmt/core.h>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

Finding fits_local_disk_text(const Case& given, const Rereading& again, bool on_each) {
  return {
      .kind = on_each ? "the dataset fits on a local disk but is read over the network"
                      : "the dataset fits on the combined local disks but is read over the network",
      .evidence = {at("job", "the dataset is {}; a local disk has {} free, all together {}",
                      format_bytes(given.dataset_bytes),
                      format_bytes(*given.machine.local_disk_bytes),
                      format_bytes(*given.machine.local_disk_bytes * given.hosts)),
                   at("epochs",
                      "{} were read again after the first time, from storage that all hosts share",
                      format_bytes(again.bytes))},
      .threshold =
          "at most 80 % of the free space, because full file systems are slow; read 1.5 times or "
          "more, so that a copy pays off within the job",
      .changes =
          {{"any",
            fmt::format(
                "copy the dataset to the local disk at the start of the job, once per host: cp -r "
                "{} $TMPDIR/, and train from there",
                data_directory(given))},
           {"tf.data", "cache on the local disk: .cache(filename) copies it in the first epoch"},
           {"store",
            fmt::format("keep it on the local disk under the same paths (--local $TMPDIR): {}",
                        store_commands(given))}},
      .gain = {
          .how = "the waiting caused by reads after the first time, minus reading the same from a "
                 "local disk at 1 GB/s"}};
}

}  // namespace

Judged judge_fits_local_disk(const Case& given) {
  if (!given.machine.local_disk_bytes || !given.is_on_shared_storage) return {};
  const uint64_t room = *given.machine.local_disk_bytes / 10 * 8;
  if (given.dataset_bytes == 0 || given.dataset_bytes > room * given.hosts) return {};
  const auto again = rereading_of(given);
  if (!again) return {};

  const uint64_t left_ns = time_at(again->bytes / given.hosts, kDiskBytesPerSecond);
  return less_waiting(given.waiting, minus(again->saved_ns, left_ns),
                      fits_local_disk_text(given, *again, given.dataset_bytes <= room));
}

}  // namespace millrace::advise
