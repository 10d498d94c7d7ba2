// same-bytes: every rank, or every worker, reads the same bytes.
#include <fmt/core.h>

#include <algorithm>

#include "advise/rules/rules.h"
#include "advise/wording.h"
#include "base/text/phrases.h"
#include "base/text/units.h"

namespace millrace::advise {
namespace {

// The smallest share of the dataset that any rank reads per epoch. Per epoch, because over several
// epochs a rank with a shuffled share sees the whole dataset, too.
double least_share(const Case& given) {
  double least = 1;
  for (const analyze::RankLoad& rank : given.profile.ranks) {
    const double bytes = ratio(rank.data_bytes_read, given.job.dataset_unique_bytes * given.epochs);
    const double files = ratio(rank.data_files, given.profile.data.files_read);
    least = std::min({least, bytes, files});
    // Ranks with samples of their own may still read the same bytes: HDF5 reads 64 KiB for a few.
    if (given.profile.data.index_end > 0 && rank.samples > 0) {
      least = std::min(least, ratio(rank.samples, given.profile.data.index_end * given.epochs));
    }
    // Several unmarked epochs: the shares of a rank add up to more than one dataset.
    if (given.job.epochs == 0 && bytes > 1.1) return 0;
  }
  return given.profile.ranks.empty() ? 0 : least;
}

// How often the workers of a rank read the dataset per epoch.
double passes_of(const Case& given) {
  return ratio(given.job.dataset_bytes_read, given.job.dataset_unique_bytes * given.epochs);
}

// Whether the workers together read every file this often in the whole job.
bool is_read_times(const Case& given, uint64_t times) {
  constexpr double kNear = 0.1;
  bool any = false;
  for (const analyze::FileStats& file : given.profile.files) {
    if (file.kind != analyze::FileKind::kData || file.unique_bytes_read == 0) continue;
    const double passes = ratio(file.io.bytes_read, file.unique_bytes_read * times);
    if (passes < 1 - kNear || passes > 1 + kNear) return false;
    any = true;
  }
  return any;
}

bool has_workers(const Case& given) {
  return given.loading.threads >= 2 && given.job.ranks <= 1 && given.job.epochs > 0;
}

// An iterable dataset that does not divide its samples: each worker reads all of them.
bool has_undivided_workers(const Case& given) {
  return has_workers(given) && given.profile.data.samples_indexed == 0 &&
         is_read_times(given, given.loading.threads * given.job.epochs);
}

// Each worker loads the whole dataset once, for itself.
bool has_copies(const Case& given) {
  return has_workers(given) && given.profile.data.samples_indexed > 0 &&
         is_read_times(given, given.loading.threads);
}

Finding same_bytes_of_copies_text(const Case& given) {
  return {
      .kind = fmt::format("each of {} workers loads the whole dataset", given.loading.threads),
      .evidence = {at("job", "{} were read, of {} of distinct bytes",
                      format_bytes(given.job.dataset_bytes_read),
                      format_bytes(given.job.dataset_unique_bytes)),
                   at("loading", "the first batch came after {}",
                      duration(given.loading.epoch_starts_first_ns))},
      .threshold =
          "as many passes over every file as there are workers, and 5 % of training time to gain",
      .changes =
          {{"pytorch",
            "load the dataset in Dataset.__init__, before the workers are forked: they share its "
            "pages; or map it: np.load(path, mmap_mode='r'); or use fewer workers"},
           {"tf.data", "read it once, before the pipeline"},
           {"loader", "use millrace.DataLoader: its threads share one dataset"}},
      .gain = {.how = "the time to the first batch, minus loading the dataset once"}};
}

Judged judge_copies(const Case& given) {
  const uint64_t workers = given.loading.threads;
  const uint64_t saved_ns =
      scaled(given.loading.epoch_starts_first_ns, 1 - 1 / static_cast<double>(workers));
  if (given.waiting.share(saved_ns) < kWaitShareMin) return {};
  return less_time(given.waiting, saved_ns, same_bytes_of_copies_text(given));
}

Finding same_bytes_of_workers_text(const Case& given) {
  const uint64_t workers = given.loading.threads;
  return {
      .kind = "the dataset is not divided",
      .details = fmt::format("each of {} workers reads all of it", workers),
      .evidence = {at("job", "an epoch read each byte {:.1f} times, with {} workers",
                      passes_of(given), workers),
                   at("loading", "training had {} of samples in {}, each of them {} times",
                      counted(given.loading.samples, "read", "reads"),
                      counted(given.job.epochs, "epoch", "epochs"), workers)},
      .threshold =
          "as many passes over every file as there are workers: training sees each sample that "
          "often in an epoch",
      .changes =
          {{"pytorch",
            "divide the samples in IterableDataset.__iter__: info = get_worker_info(), then "
            "islice(samples, info.id, None, info.num_workers), or files[info.id::info.num_workers]"},
           {"tf.data", "shard the list of files among the readers"},
           {"loader",
            "use millrace.DataLoader with files: its threads divide the samples themselves"}},
      .gain = {.how = fmt::format("the steps of samples that an epoch has {} times", workers)}};
}

Judged judge_workers(const Case& given) {
  const uint64_t workers = given.loading.threads;
  const analyze::TimeSplit& mean = given.profile.time.mean;
  const uint64_t each_ns = std::max(mean.step_ns, mean.wait_ns + mean.compute_ns);
  const uint64_t saved_ns = scaled(each_ns, 1 - 1 / static_cast<double>(workers));
  if (!given.waiting.matters(saved_ns)) return {};
  return less_time(given.waiting, saved_ns, same_bytes_of_workers_text(given));
}

Finding same_bytes_text(const Case& given, double least, double shared) {
  return {
      .kind = "the dataset is not sharded",
      .details = fmt::format("each of {} ranks reads all of it", given.job.ranks),
      .evidence = {at("ranks", "every rank read at least {} of the dataset's {}{}",
                      format_percent(least), format_bytes(given.job.dataset_unique_bytes),
                      given.job.epochs > 1 ? " in an epoch" : ""),
                   at("data", "{} were read in total; several ranks read {} of the distinct bytes",
                      format_bytes(given.job.dataset_bytes_read), format_percent(shared))},
      .threshold =
          "every rank reads 90 % of the bytes and of the files: with sharding, each rank reads an "
          "equal part of an epoch",
      .changes =
          {{"pytorch",
            "shard the samples: DataLoader(..., "
            "sampler=torch.utils.data.distributed.DistributedSampler(dataset)), and call "
            "sampler.set_epoch(epoch) before each epoch"},
           {"tf.data",
            "shard the list of files: dataset.shard(num_shards=size, index=rank), before anything "
            "is read"},
           {"hdf5",
            "read it once and broadcast, or read collectively, one hyperslab per rank: "
            "H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE)"},
           {"any",
            "if every rank needs all of it (tables, a validation set): read it on one rank per "
            "host and broadcast"}},
      .gain = {
          .how = given.profile.time.basis == analyze::WaitBasis::kRegions
                     ? fmt::format("the steps that a rank would save if it took one of {} parts",
                                   given.job.ranks)
                     : fmt::format(
                           "the waiting for I/O that a rank would save by reading one of {} parts",
                           given.job.ranks)}};
}

}  // namespace

Judged judge_same_bytes(const Case& given) {
  if (has_undivided_workers(given)) return judge_workers(given);
  if (has_copies(given)) return judge_copies(given);
  constexpr double kShareMin = 0.9;
  if (given.job.ranks < 2 || given.job.dataset_unique_bytes == 0) return {};
  const double shared = ratio(given.profile.data.shared_bytes, given.job.dataset_unique_bytes);
  const double least = least_share(given);
  if (shared < kShareMin || least < kShareMin) return {};
  // With a share of the samples, a rank has fewer steps: it computes less, too.
  const analyze::TimeSplit& mean = given.profile.time.mean;
  const bool has_steps = given.profile.time.basis == analyze::WaitBasis::kRegions;
  const uint64_t each_ns =
      has_steps ? std::max(mean.step_ns, mean.wait_ns + mean.compute_ns) : given.waiting.io_ns;
  const uint64_t saved_ns = scaled(each_ns, 1 - 1 / static_cast<double>(given.job.ranks));
  if (!given.waiting.matters(saved_ns)) return {};
  return less_time(given.waiting, saved_ns, same_bytes_text(given, least, shared));
}

}  // namespace millrace::advise
