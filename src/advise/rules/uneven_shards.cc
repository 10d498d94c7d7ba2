// uneven-shards: some ranks read more data than others, which wait for them.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

struct Loads {
  const analyze::RankLoad* most = nullptr;
  uint64_t mean_bytes = 0;
  uint64_t io_most_ns = 0;  // of the rank that reads most
  uint64_t io_mean_ns = 0;
};

Loads loads_of(const analyze::Profile& profile) {
  Loads loads;
  uint64_t bytes = 0;
  for (const analyze::RankLoad& rank : profile.ranks) {
    bytes += rank.data_bytes_read;
    if (loads.most == nullptr || rank.data_bytes_read > loads.most->data_bytes_read) {
      loads.most = &rank;
    }
  }
  if (loads.most == nullptr) return loads;
  loads.mean_bytes = bytes / profile.ranks.size();
  for (const analyze::TimeSplit& rank : profile.time.ranks) {
    if (rank.name == loads.most->name) loads.io_most_ns = rank.io_ns;
  }
  loads.io_mean_ns = profile.time.mean.io_ns;
  return loads;
}

}  // namespace

Judged judge_uneven_shards(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kExcessMin = 1.25;
  const Waiting waiting = waiting_of(profile);
  if (profile.job.ranks < 2 || profile.ranks.size() < 2) return {};
  const Loads loads = loads_of(profile);
  const double excess = ratio(loads.most->data_bytes_read, loads.mean_bytes);
  if (excess < kExcessMin || loads.io_most_ns <= loads.io_mean_ns) return {};
  const uint64_t longer_ns = loads.io_most_ns - loads.io_mean_ns;
  if (longer_ns < kSecond || waiting.share(longer_ns) < kTimeShareMin) return {};

  Finding finding;
  finding.title =
      fmt::format("load imbalance: {} reads {:.1f} times the mean", loads.most->name, excess);
  finding.evidence = {
      {fmt::format("{} read {} in {} files; the mean is {}", loads.most->name,
                   format_bytes(loads.most->data_bytes_read), format_exact(loads.most->data_files),
                   format_bytes(loads.mean_bytes)),
       "ranks:" + loads.most->name},
      {fmt::format("it spent {} in I/O; the mean is {}", duration(loads.io_most_ns),
                   duration(loads.io_mean_ns)),
       "time.ranks"}};
  finding.threshold =
      "a quarter more than the mean: ranks exchange gradients every step, so the slowest sets the "
      "pace; smaller differences come from files of different sizes";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "shard by samples, not by files: DistributedSampler gives every rank the same "
              "number; for an IterableDataset make the number of files a multiple of ranks times "
              "workers")
          .tf_data(
              "shard by samples, not by files: shard() after reading; or make files of equal size, "
              "and their number a multiple of the ranks")
          .any(
              "balance by bytes: sort the files by size, and give each to the rank with the fewest "
              "bytes so far")
          .take();
  // At most the time that this rank waits: overlapped I/O costs nothing.
  uint64_t wait_most_ns = 0;
  for (const analyze::TimeSplit& rank : profile.time.ranks) {
    if (rank.name == loads.most->name) wait_most_ns = std::max(rank.wait_ns, rank.io_exposed_ns);
  }
  finding.gain = gain_of(waiting, std::min(longer_ns, wait_most_ns),
                         "the I/O time of this rank above the mean: the others wait for it");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
