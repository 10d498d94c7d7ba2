// same-bytes: every rank, or every worker, reads the same bytes.
#include <fmt/core.h>

#include <algorithm>

#include "advise/judging.h"
#include "advise/rules/rules.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

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
    // Ranks with samples of their own may still read the same bytes: HDF5 reads 64 KiB for a few.
    if (profile.data.index_end > 0 && rank.samples > 0) {
      least = std::min(least, ratio(rank.samples, profile.data.index_end * epochs_of(profile)));
    }
    // Several unmarked epochs: the shares of a rank add up to more than one dataset.
    if (job.epochs == 0 && bytes > 1.1) return 0;
  }
  return profile.ranks.empty() ? 0 : least;
}

// How often the workers of a rank read the dataset per epoch.
double passes_of(const analyze::Profile& profile) {
  const analyze::Job& job = profile.job;
  return ratio(job.dataset_bytes_read, job.dataset_unique_bytes * epochs_of(profile));
}

// Whether the workers together read every file this often in the whole job.
bool is_read_times(const analyze::Profile& profile, uint64_t times) {
  constexpr double kNear = 0.1;
  bool any = false;
  for (const analyze::FileStats& file : profile.files) {
    if (file.kind != analyze::FileKind::kData || file.unique_bytes_read == 0) continue;
    const double passes = ratio(file.io.bytes_read, file.unique_bytes_read * times);
    if (passes < 1 - kNear || passes > 1 + kNear) return false;
    any = true;
  }
  return any;
}

bool has_workers(const analyze::Profile& profile) {
  return profile.loading.threads >= 2 && profile.job.ranks <= 1 && profile.job.epochs > 0;
}

// An iterable dataset that does not divide its samples: each worker reads all of them.
bool has_undivided_workers(const analyze::Profile& profile) {
  return has_workers(profile) && profile.data.samples_indexed == 0 &&
         is_read_times(profile, profile.loading.threads * profile.job.epochs);
}

// Each worker loads the whole dataset once, for itself.
bool has_copies(const analyze::Profile& profile) {
  return has_workers(profile) && profile.data.samples_indexed > 0 &&
         is_read_times(profile, profile.loading.threads);
}

Judged judge_copies(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const uint64_t workers = profile.loading.threads;
  const uint64_t saved_ns =
      scaled(profile.loading.epoch_starts_first_ns, 1 - 1 / static_cast<double>(workers));
  if (waiting.share(saved_ns) < kWaitShareMin) return {};

  Finding finding;
  finding.title = fmt::format("each of {} workers loads the whole dataset", workers);
  finding.evidence = {{fmt::format("{} were read, of {} of distinct bytes",
                                   format_bytes(profile.job.dataset_bytes_read),
                                   format_bytes(profile.job.dataset_unique_bytes)),
                       "job"},
                      {fmt::format("the first batch came after {}",
                                   duration(profile.loading.epoch_starts_first_ns)),
                       "loading"}};
  finding.threshold =
      "as many passes over every file as there are workers, and 5 % of training time to gain";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "load the dataset in Dataset.__init__, before the workers are forked: they share its "
              "pages; or map it: np.load(path, mmap_mode='r'); or use fewer workers")
          .tf_data("read it once, before the pipeline")
          .loader("use millrace.DataLoader: its threads share one dataset")
          .take();
  finding.gain =
      gain_of(waiting, saved_ns, "the time to the first batch, minus loading the dataset once");
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

Judged judge_workers(const analyze::Profile& profile, const Machine& machine) {
  const Waiting waiting = waiting_of(profile);
  const uint64_t workers = profile.loading.threads;
  const analyze::TimeSplit& mean = profile.time.mean;
  const uint64_t each_ns = std::max(mean.step_ns, mean.wait_ns + mean.compute_ns);
  const uint64_t saved_ns = scaled(each_ns, 1 - 1 / static_cast<double>(workers));
  if (!waiting.matters(saved_ns)) return {};

  Finding finding;
  finding.title =
      fmt::format("the dataset is not divided: each of {} workers reads all of it", workers);
  finding.evidence = {{fmt::format("an epoch read each byte {:.1f} times, with {} workers",
                                   passes_of(profile), workers),
                       "job"},
                      {fmt::format("training had {} of samples in {}, each of them {} times",
                                   counted(profile.loading.samples, "read", "reads"),
                                   counted(profile.job.epochs, "epoch", "epochs"), workers),
                       "loading"}};
  finding.threshold =
      "as many passes over every file as there are workers: training sees each sample that often "
      "in an epoch";
  finding.changes =
      Changes(profile, machine)
          .pytorch(
              "divide the samples in IterableDataset.__iter__: info = get_worker_info(), then "
              "islice(samples, info.id, None, info.num_workers), or files[info.id::info.num_workers]")
          .tf_data("shard the list of files among the readers")
          .loader("use millrace.DataLoader with files: its threads divide the samples themselves")
          .take();
  finding.gain = gain_of(waiting, saved_ns,
                         fmt::format("the steps of samples that an epoch has {} times", workers));
  finding.severity = severity_of(finding.gain, Severity::kWarning);
  return finding;
}

}  // namespace

Judged judge_same_bytes(const analyze::Profile& profile, const Machine& machine) {
  if (has_undivided_workers(profile)) return judge_workers(profile, machine);
  if (has_copies(profile)) return judge_copies(profile, machine);
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
