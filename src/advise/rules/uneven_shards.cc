// uneven-shards: some ranks have more to read than others, who wait for them.
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
  uint64_t io_most_ns = 0;  // of the rank that was longest in I/O
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
      fmt::format("{} has {:.1f} times the data of a mean rank", loads.most->name, excess);
  finding.evidence = {
      {fmt::format("{} read {} in {} files; the mean is {}", loads.most->name,
                   format_bytes(loads.most->data_bytes_read), format_exact(loads.most->data_files),
                   format_bytes(loads.mean_bytes)),
       "ranks:" + loads.most->name},
      {fmt::format("it was {} in I/O, a mean rank {}", duration(loads.io_most_ns),
                   duration(loads.io_mean_ns)),
       "time.ranks"}};
  finding.threshold =
      "a quarter more than the mean: ranks exchange gradients every step, so the slowest "
      "sets the pace; less than that is what files of different sizes make";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "shard by samples, not by files: DistributedSampler gives every rank as many; for an "
              "IterableDataset make the number of files a multiple of ranks times workers")
          .tf_data(
              "make the files equally large and their number a multiple of the ranks, or shard() "
              "behind reading instead of the list of files")
          .any(
              "balance by bytes: sort the files by size, and deal each to the rank with least so far")
          .take();
  // Its wait alone where that is less: what is hidden costs nobody anything.
  uint64_t wait_most_ns = 0;
  for (const analyze::TimeSplit& rank : profile.time.ranks) {
    if (rank.name == loads.most->name) wait_most_ns = std::max(rank.wait_ns, rank.io_unhidden_ns);
  }
  finding.gain = gain_of(waiting, std::min(longer_ns, wait_most_ns),
                         "what this rank was longer in I/O than the mean: the others wait for it");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
