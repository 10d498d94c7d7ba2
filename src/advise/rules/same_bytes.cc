// same-bytes: every rank reads the same bytes.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/units.h"

namespace millrace::advise {
namespace {

// The smallest share of the dataset that any rank reads per epoch. Per epoch, because over several
// epochs a rank with a shuffled share sees the whole dataset, too.
double least_share(const analyze::Profile& profile) {
  const analyze::Job& job = profile.job;
  double least = 1;
  for (const analyze::RankLoad& rank : profile.ranks) {
    const double bytes = ratio(rank.data_bytes_read, job.dataset_unique_bytes * epochs_of(profile));
    const double files = ratio(rank.data_files, profile.data.files_read);
    least = std::min({least, bytes, files});
    // Several unmarked epochs: the shares of a rank add up to more than one dataset.
    if (job.epochs == 0 && bytes > 1.1) return 0;
  }
  return profile.ranks.empty() ? 0 : least;
}

}  // namespace

Judged judge_same_bytes(const analyze::Profile& profile, const Machine& machine) {
  constexpr double kShareMin = 0.9;
  const Waiting waiting = waiting_of(profile);
  const analyze::Job& job = profile.job;
  if (job.ranks < 2 || job.dataset_unique_bytes == 0) return {};
  const double shared = ratio(profile.data.shared_bytes, job.dataset_unique_bytes);
  const double least = least_share(profile);
  if (shared < kShareMin || least < kShareMin) return {};
  // With a share of the samples, a rank has fewer steps: it computes less, too.
  const analyze::TimeSplit& mean = profile.time.mean;
  const bool has_steps = profile.time.basis == analyze::WaitBasis::kRegions;
  const uint64_t each_ns =
      has_steps ? std::max(mean.step_ns, mean.wait_ns + mean.compute_ns) : waiting.io_ns;
  const uint64_t saved_ns = scaled(each_ns, 1 - 1 / static_cast<double>(job.ranks));
  if (!waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title =
      fmt::format("the dataset is not sharded: each of {} ranks reads all of it", job.ranks);
  finding.evidence = {
      {fmt::format("every rank read at least {} of the dataset's {}{}", format_percent(least),
                   format_bytes(job.dataset_unique_bytes), job.epochs > 1 ? " in an epoch" : ""),
       "ranks"},
      {fmt::format("{} were read in total; several ranks read {} of the distinct bytes",
                   format_bytes(job.dataset_bytes_read), format_percent(shared)),
       "data"}};
  finding.threshold =
      "every rank reads 90 % of the bytes and of the files: with sharding, each rank reads an "
      "equal part of an epoch";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "shard the samples: DataLoader(..., "
              "sampler=torch.utils.data.distributed.DistributedSampler(dataset)), and call "
              "sampler.set_epoch(epoch) before each epoch")
          .tf_data(
              "shard the list of files: dataset.shard(num_shards=size, index=rank), before "
              "anything is read")
          .hdf5(
              "read it once and broadcast, or read collectively, one hyperslab per rank: "
              "H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE)")
          .any(
              "if every rank needs all of it (tables, a validation set): read it on one rank per "
              "host and broadcast")
          .take();
  finding.gain = gain_of(
      waiting, saved_ns,
      has_steps
          ? fmt::format("the steps that a rank would save if it took one of {} parts", job.ranks)
          : fmt::format("the waiting for I/O that a rank would save by reading one of {} parts",
                        job.ranks));
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace millrace::advise
