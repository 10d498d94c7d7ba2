// fits-memory: the dataset is read from storage every epoch although it fits in memory.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// What to copy: the file if there is only one, else the directory.
std::string what_to_copy(const Case& given) {
  const analyze::FileStats* file = given.most_read;
  if (file != nullptr && 10 * file->io.bytes_read >= 9 * given.job.dataset_bytes_read) {
    return file->path;
  }
  return "-r " + data_directory(given);
}

Finding fits_memory_text(const Case& given, const Rereading& again, bool on_each) {
  return {
      .kind = on_each ? "the dataset fits in memory but is reread every epoch"
                      : "the dataset fits in the combined memory but is reread every epoch",
      .evidence = {at("job",
                      "the dataset is {} in {} files; each host has {} of memory, all together {}",
                      format_bytes(given.dataset_bytes), format_exact(given.job.dataset_files),
                      format_bytes(*given.machine.memory_bytes),
                      format_bytes(*given.machine.memory_bytes * given.hosts)),
                   at("epochs", "{} were read again after the first time, slower than from memory",
                      format_bytes(again.bytes))},
      .threshold =
          "at most half of the memory, which leaves the other half to the program; read 1.5 times "
          "or more, and slower than 2 GB/s, so the page cache did not keep it",
      .changes =
          {{"pytorch",
            fmt::format(
                "copy the dataset to memory before training: cp {} /dev/shm/, and read it from "
                "there; or keep the samples in one shared tensor that the workers inherit",
                what_to_copy(given))},
           {"tf.data",
            "add .cache() after decoding if the decoded values fit, otherwise before it"},
           {"hdf5",
            "open files with driver='core' in h5py (H5Pset_fapl_core): it reads the file into "
            "memory"},
           {"store",
            fmt::format("keep it in memory, under the same paths: {}", store_commands(given))}},
      .gain = {.how = "the waiting caused by reads after the first time, minus copying the bytes "
                      "from memory at 2 GB/s"}};
}

}  // namespace

std::optional<Rereading> rereading_of(const Case& given) {
  // In one epoch, ranks that read the same bytes once each do not reread them: see same-bytes.
  uint64_t by_ranks = 0;
  for (const analyze::RankLoad& rank : given.profile.ranks) {
    if (given.job.epochs > 1) break;
    by_ranks += std::min(rank.data_bytes_read, given.job.dataset_unique_bytes);
  }
  const uint64_t once = std::max({given.job.dataset_unique_bytes, by_ranks, uint64_t{1}});
  if (given.io.bytes_read < once + once / 2 ||
      given.waiting.share(given.waiting.io_ns) < kWaitShareMin)
    return {};
  // Reads from the page cache do not wait: they copy, after a system call.
  if (given.io.reads == 0 || given.io.read_ns / given.io.reads < kCachedReadNs) return {};
  // Reads after the first pass: the later epochs, if epochs are known.
  uint64_t bytes = 0;
  uint64_t reads = 0;
  uint64_t time_ns = 0;
  for (size_t i = 1; i < given.profile.epochs.size(); ++i) {
    bytes += given.profile.epochs[i].io.bytes_read;
    reads += given.profile.epochs[i].io.reads;
    time_ns += given.profile.epochs[i].io.read_ns;
  }
  if (bytes == 0) {
    bytes = given.io.bytes_read - once;
    const double share = ratio(bytes, given.io.bytes_read);
    reads = scaled(given.io.reads, share);
    time_ns = scaled(given.io.read_ns, share);
  }
  const uint64_t left_ns = time_at(bytes, kCacheBytesPerSecond) + reads * kCachedReadNs;
  if (bytes == 0 || time_ns <= left_ns) return {};
  const uint64_t saved_ns = given.waiting.due_to(time_ns - left_ns);
  if (given.waiting.share(saved_ns) < kWaitShareMin) return {};
  return Rereading{.bytes = bytes, .saved_ns = saved_ns};
}

Judged judge_fits_memory(const Case& given) {
  if (!given.machine.memory_bytes || given.machine.data_storage == Storage::kMemory) return {};
  const uint64_t room = *given.machine.memory_bytes / 2;
  if (given.dataset_bytes == 0 || given.dataset_bytes > room * given.hosts) return {};
  const auto again = rereading_of(given);
  if (!again) return {};

  const bool on_each = given.dataset_bytes <= room;
  return less_waiting(given.waiting, again->saved_ns, fits_memory_text(given, *again, on_each));
}

}  // namespace millrace::advise
