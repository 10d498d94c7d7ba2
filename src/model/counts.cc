#include "model/counts.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace millrace::model {
namespace {

using analyze::Profile;

uint64_t divided(uint64_t a, uint64_t b) { return b == 0 ? 0 : (a + b / 2) / b; }
uint64_t divided_up(uint64_t a, uint64_t b) { return b == 0 ? 0 : (a + b - 1) / b; }

uint64_t scaled(uint64_t whole, uint64_t part, uint64_t of) {
  const double share = of == 0 ? 0 : static_cast<double>(part) / static_cast<double>(of);
  return static_cast<uint64_t>(std::llround(static_cast<double>(whole) * share));
}

uint64_t steps_of_all(const Profile& profile) {
  uint64_t steps = 0;
  for (const analyze::RankLoad& rank : profile.ranks) steps += rank.steps;
  return std::max(steps, profile.steps.duration_ns.count);
}

// Without regions: how often the bytes of the dataset were read.
uint64_t passes_by_bytes(const analyze::Job& job) {
  const uint64_t unique = job.dataset_unique_bytes;
  return std::max<uint64_t>(divided(job.dataset_bytes_read, unique), 1);
}

uint64_t marked_evaluations(const Profile& profile) {
  return static_cast<uint64_t>(std::count_if(
      profile.stretches.begin(), profile.stretches.end(), [](const analyze::Stretch& stretch) {
        return stretch.role == analyze::Role::kEvaluate && stretch.rank == 0;
      }));
}

// Each pass over a loader starts it once: those that are not epochs of the training evaluate.
uint64_t evaluations(const Profile& profile, const Counts& counts) {
  const uint64_t starts = profile.loading.epoch_starts / counts.ranks;
  const uint64_t others = starts > counts.epochs ? starts - counts.epochs : 0;
  const uint64_t batches = profile.loading.batches;
  const bool has_batches = batches > counts.steps_all;
  return std::max(has_batches ? others : 0, marked_evaluations(profile));
}

void count_evaluations(const Profile& profile, Counts& counts) {
  counts.eval_passes = evaluations(profile, counts);
  if (counts.eval_passes == 0) return;
  const analyze::Loading& loading = profile.loading;
  const uint64_t batches = loading.batches - std::min(loading.batches, counts.steps_all);
  const uint64_t indexed = profile.data.samples_indexed;
  // Samples of the training have indices, unless the dataset is a stream.
  const uint64_t samples = indexed > 0 && indexed < loading.samples
                               ? loading.samples - indexed
                               : scaled(loading.samples, batches, loading.batches);
  counts.eval_batches = divided(batches, counts.eval_passes * counts.ranks);
  counts.eval_samples = divided(samples, counts.eval_passes);
  counts.eval_batch_size =
      batch_size_of(divided_up(counts.eval_samples, counts.ranks), counts.eval_batches);
}

// Samples that the training used, not those that were only read ahead.
uint64_t trained_samples(const Profile& profile, const Counts& counts) {
  const analyze::Loading& loading = profile.loading;
  const uint64_t evaluated = counts.eval_samples * counts.eval_passes;
  const uint64_t samples = loading.samples - std::min(loading.samples, evaluated);
  const uint64_t eval_batches = counts.eval_batches * counts.eval_passes * counts.ranks;
  const uint64_t batches = loading.batches - std::min(loading.batches, eval_batches);
  return batches > counts.steps_all ? scaled(samples, counts.steps_all, batches) : samples;
}

bool has_equal_epochs(const Profile& profile) {
  const auto& epochs = profile.epochs;
  return std::all_of(epochs.begin(), epochs.end(), [&](const analyze::EpochStats& epoch) {
    return epoch.steps == epochs.front().steps;
  });
}

void count_steps(const Profile& profile, Counts& counts) {
  counts.steps = profile.job.steps;
  counts.steps_all = std::max(steps_of_all(profile), counts.steps);
  for (const analyze::EpochStats& epoch : profile.epochs) {
    counts.steps_per_epoch = std::max(counts.steps_per_epoch, epoch.steps);
  }
  if (counts.steps_per_epoch == 0) counts.steps_per_epoch = divided_up(counts.steps, counts.epochs);
}

void count_samples(const Profile& profile, Counts& counts) {
  const uint64_t trained = trained_samples(profile, counts);
  if (trained == 0 || counts.steps_all == 0) {
    counts.samples_per_epoch = divided(trained, counts.epochs);
    return;
  }
  const uint64_t in_epoch = scaled(trained, counts.steps_per_epoch, counts.steps_all);
  counts.samples_per_epoch = has_equal_epochs(profile) && profile.epochs.size() == counts.epochs
                                 ? divided(trained, counts.epochs)
                                 : in_epoch * counts.ranks;
  counts.batch_size = batch_size_of(in_epoch, counts.steps_per_epoch);
}

// How round a number is: people choose powers of two, then hundreds and tens.
int roundness(uint64_t number) {
  if (std::has_single_bit(number)) return 5;
  if (number % 100 == 0) return 4;
  if (number % 32 == 0 || number % 50 == 0) return 3;
  if (number % 10 == 0) return 2;
  return number % 4 == 0 ? 1 : 0;
}

}  // namespace

uint64_t batch_size_of(uint64_t samples, uint64_t steps) {
  if (steps == 0) return 0;
  const uint64_t least = std::max<uint64_t>(divided_up(samples, steps), 1);
  if (samples % steps == 0 || roundness(least) >= 2 || steps == 1) return least;
  const uint64_t most = divided_up(samples, steps - 1) - 1;
  uint64_t best = least;
  for (uint64_t size = least + 1; size <= most && size - least < 4096; ++size) {
    if (roundness(size) > roundness(best)) best = size;
  }
  return best;
}

Counts counts_of(const Profile& profile) {
  Counts counts;
  counts.ranks = std::max<uint64_t>(profile.job.ranks, 1);
  counts.epochs_marked = profile.job.epochs > 0;
  counts.epochs = counts.epochs_marked ? profile.job.epochs : passes_by_bytes(profile.job);
  count_steps(profile, counts);
  count_evaluations(profile, counts);
  count_samples(profile, counts);
  return counts;
}

}  // namespace millrace::model
