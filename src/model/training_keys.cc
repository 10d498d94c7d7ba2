// The sections `reader`, `train` and `evaluation`: how the data is read, and the time between.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/text/phrases.h"
#include "base/text/units.h"
#include "model/derive.h"
#include "model/step_times.h"

namespace millrace::model {
namespace {

using analyze::Profile;
using analyze::ReadOrder;
using bench::Shuffle;

constexpr uint64_t kTorchPrefetch = 2;
// Less than this is the cost of calls, not of preprocessing.
constexpr double kPreprocessMin_s = 1e-6;

std::string duration_text(double time_s) {
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(time_s * 1e9)));
}

double rounded(double time_s) {
  if (time_s <= 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(time_s)) - 3);  // four digits
  return std::round(time_s / unit) * unit;
}

bench::TimeModel rounded(bench::TimeModel time) {
  time.first = rounded(time.first);
  time.second = rounded(time.second);
  return time;
}

void set_loader(const Profile& profile, Sheet& sheet) {
  bench::ReaderConfig& reader = sheet.workload().reader;
  if (const auto framework = bench::named<bench::Framework>(profile.job.framework)) {
    sheet.set("reader.data_loader", reader.data_loader, loader_of(*framework),
              "libraries that the job loaded");
  } else {
    sheet.assume("reader.data_loader", reader.data_loader, bench::DataLoader::kNative,
                 "no framework was found");
  }
}

void set_batches(const Evidence& evidence, Sheet& sheet) {
  bench::ReaderConfig& reader = sheet.workload().reader;
  const Counts& counts = evidence.counts;
  const uint64_t samples =
      sheet.workload().dataset.num_files_train * sheet.workload().dataset.num_samples_per_file;
  if (counts.batch_size == 0) {
    sheet.assume("reader.batch_size", reader.batch_size, uint64_t{1}, "no regions show batches");
    sheet.missing(
        "The trace has no regions of a training loop: batches, workers and compute are "
        "unknown. Trace a Python job with `python -m millrace.trace`.");
    return;
  }
  sheet.set("reader.batch_size", reader.batch_size, std::min(counts.batch_size, samples),
            fmt::format("{} samples in {} of an epoch{}", format_exact(counts.samples_per_epoch),
                        counted(counts.steps_per_epoch * counts.ranks, "step", "steps"),
                        counts.ranks > 1 ? ", over all ranks" : ""));
}

void set_workers(const Evidence& evidence, Sheet& sheet) {
  bench::ReaderConfig& reader = sheet.workload().reader;
  const analyze::Loading& loading = evidence.profile.loading;
  if (loading.work_ns == 0 && loading.batches == 0) {
    sheet.assume("reader.read_threads", reader.read_threads, uint64_t{1},
                 "no regions show who loads");
    return;
  }
  const bool alone = loading.threads == 0;
  sheet.set("reader.read_threads", reader.read_threads, loading.threads,
            alone ? "the training thread loads by itself"
                  : "workers (processes or threads) of a rank that load at the same time");
  if (alone) {
    sheet.set("reader.prefetch_size", reader.prefetch_size, uint64_t{0}, "nobody reads ahead");
    return;
  }
  sheet.assume("reader.prefetch_size", reader.prefetch_size, kTorchPrefetch,
               "PyTorch's default; a trace does not show it");
  sheet.assumption(fmt::format("Each worker prefetches {} batches.", kTorchPrefetch));
}

struct OrderKeys {
  Shuffle files = Shuffle::kOff;
  Shuffle samples = Shuffle::kOff;
  std::string why;
  bool assumed = false;
};

// Too few reads to call it an order: names that went down still rule out the order by name.
OrderKeys order_of_few(const analyze::DataUse& data) {
  constexpr double kAscendingMin = 0.95;
  if (data.ascending > 0 && data.ascending < kAscendingMin) {
    return {.files = Shuffle::kSeed,
            .why = fmt::format("few files, but only {} of the changes between them go up by name",
                               format_percent(data.ascending))};
  }
  return {.why = "too few reads to tell", .assumed = true};
}

OrderKeys order_keys(const Evidence& evidence) {
  const analyze::DataUse& data = evidence.profile.data;
  const Shuffle files = evidence.files.train_files > 1 ? Shuffle::kSeed : Shuffle::kOff;
  switch (data.order) {
    case ReadOrder::kSequential:
      return {.why = "read by name and offset"};
    case ReadOrder::kFixed:
      return {.files = files, .samples = Shuffle::kSeed, .why = "not by name"};
    case ReadOrder::kFilesShuffled:
      return {.files = files,
              .why = "files in a new order every epoch, samples within one are not"};
    case ReadOrder::kShuffled:
      return {.files = files,
              .samples = Shuffle::kSeed,
              .why = evidence.counts.epochs > 1 ? "a new order every epoch" : "not by name"};
    case ReadOrder::kUnknown:
      break;
  }
  return order_of_few(data);
}

void set_order(const Evidence& evidence, Sheet& sheet) {
  bench::ReaderConfig& reader = sheet.workload().reader;
  const OrderKeys order = order_keys(evidence);
  if (order.assumed) {
    sheet.assume("reader.file_shuffle", reader.file_shuffle, order.files, order.why);
    sheet.assume("reader.sample_shuffle", reader.sample_shuffle, order.samples, order.why);
    sheet.assumption("The data is read in order: the trace has too few reads to tell.");
    return;
  }
  sheet.set("reader.file_shuffle", reader.file_shuffle, order.files, order.why);
  sheet.set("reader.sample_shuffle", reader.sample_shuffle, order.samples, order.why);
}

// Whether the dataset was read once, before the training.
bool is_loaded_before(const Evidence& evidence) {
  const Profile& profile = evidence.profile;
  if (profile.epochs.size() < 2 || evidence.files.mapped) return false;
  const analyze::IoTotals& io = evidence.files.io;
  const bool once = io.bytes_read > 0 &&
                    io.bytes_read <= evidence.files.size_bytes * 11 / 10 * evidence.counts.ranks;
  return once && io.last_ns < profile.epochs[1].begin_ns &&
         profile.epochs.front().io.reads * 10 < io.reads + 10;
}

void set_access(const Evidence& evidence, Sheet& sheet) {
  bench::ReaderConfig& reader = sheet.workload().reader;
  const Profile& profile = evidence.profile;
  if (is_loaded_before(evidence)) {
    sheet.set("reader.read_type", reader.read_type, bench::ReadType::kMemory,
              "the files were read once, before the first epoch");
  }
  const analyze::DataUse& data = profile.data;
  if (evidence.counts.ranks > 1 &&
      2 * data.files_shared >= std::max<uint64_t>(data.files_read, 1)) {
    sheet.set("reader.file_access", reader.file_access, bench::FileAccess::kShared,
              fmt::format("{} of {} files were read by several ranks",
                          format_exact(data.files_shared), format_exact(data.files_read)));
  }
  const bool direct = std::any_of(profile.files.begin(), profile.files.end(), [](const auto& file) {
    return file.kind == analyze::FileKind::kData && file.direct_opens > 0;
  });
  if (direct) {
    sheet.set("reader.odirect", reader.odirect, true, "data files were opened with O_DIRECT");
  }
}

// A size that most bytes were read with, if a sample takes several such reads.
void set_transfer_size(const Evidence& evidence, Sheet& sheet) {
  bench::ReaderConfig& reader = sheet.workload().reader;
  const analyze::AccessPattern& reads = evidence.profile.data_reads;
  const uint64_t bytes = evidence.profile.job.dataset_bytes_read;
  // The sizes are those of all data files: files beside the dataset must not decide.
  if (evidence.files.mapped || evidence.files.io.bytes_read * 4 < bytes * 3) return;
  const double record = static_cast<double>(evidence.files.size_bytes) /
                        static_cast<double>(std::max<uint64_t>(
                            evidence.files.all_files * evidence.files.samples_per_file, 1));
  for (const analyze::CommonValue& size : reads.common_sizes) {
    const bool is_most = size.value * size.count * 2 > bytes;
    if (!is_most || static_cast<double>(size.value) * 2 > record) continue;
    if (sheet.workload().reader.odirect && size.value % 512 != 0) continue;
    sheet.set("reader.transfer_size", reader.transfer_size, size.value,
              fmt::format("the size of {} of {} reads", format_exact(size.count),
                          format_exact(reads.counts.count - reads.counts.at_end)));
    return;
  }
}

void set_preprocessing(const Profile& profile, Sheet& sheet) {
  const analyze::Loading& loading = profile.loading;
  if (loading.samples == 0) return;
  const uint64_t calls_ns = loading.read_ns + loading.metadata_ns + loading.library_ns;
  const uint64_t code_ns = loading.work_ns - std::min(loading.work_ns, calls_ns);
  const double each_s = static_cast<double>(code_ns) / 1e9 / static_cast<double>(loading.samples);
  if (each_s < kPreprocessMin_s) return;
  sheet.set("reader.preprocess_time", sheet.workload().reader.preprocess_time,
            bench::TimeModel{.first = rounded(each_s)},
            "time of loading outside of I/O, for each sample");
}

void set_compute(const Evidence& evidence, Sheet& sheet, const StepTimes& times) {
  bench::TimeModel& place = sheet.workload().train.computation_time;
  if (times.count == 0) {
    const analyze::TimeSplit& mean = evidence.profile.time.mean;
    const uint64_t steps = std::max<uint64_t>(sheet.workload().dataset.num_files_train *
                                                  sheet.workload().dataset.num_samples_per_file *
                                                  evidence.counts.epochs / evidence.counts.ranks,
                                              1);
    const uint64_t rest_ns = mean.wall_ns - std::min(mean.wall_ns, mean.io_exposed_ns);
    const double each_s = static_cast<double>(rest_ns) / 1e9 / static_cast<double>(steps);
    sheet.assume("train.computation_time", place, bench::TimeModel{.first = rounded(each_s)},
                 "the time of the job outside of I/O, for each sample");
    sheet.assumption("All time outside of I/O is compute.");
    return;
  }
  std::string why =
      fmt::format("mean {}, deviation {} of {}", duration_text(times.mean_s),
                  duration_text(times.stdev_s), counted(times.count, "step", "steps"));
  why += times.by_summary ? ", from totals" : ": from the end of a wait to the next wait";
  if (times.left_out > 0) {
    why += fmt::format("; without {} of over ten times the median",
                       counted(times.left_out, "step", "steps"));
  }
  sheet.set("train.computation_time", place, rounded(time_model_of(times.mean_s, times.stdev_s)),
            why);
}

void set_epochs(const Evidence& evidence, Sheet& sheet) {
  bench::TrainConfig& train = sheet.workload().train;
  const Counts& counts = evidence.counts;
  const bench::DatasetConfig& dataset = sheet.workload().dataset;
  const uint64_t samples = dataset.num_files_train * dataset.num_samples_per_file;
  const uint64_t step_samples = sheet.workload().reader.batch_size * counts.ranks;
  const uint64_t steps_per_epoch = (samples + step_samples - 1) / step_samples;
  // A whole epoch may lack its last batch, or have one more.
  const bool is_part =
      counts.steps > 0 && counts.steps + counts.epochs < counts.epochs * steps_per_epoch;
  if (is_part) {
    const uint64_t epochs = (counts.steps + steps_per_epoch - 1) / steps_per_epoch;
    sheet.set("train.epochs", train.epochs, epochs,
              fmt::format("passes over the dataset that {} take",
                          counted(counts.steps, "step", "steps")));
    sheet.set("train.total_training_steps", train.total_training_steps, counts.steps,
              fmt::format("steps of a rank in {}", counted(counts.epochs, "epoch", "epochs")));
    return;
  }
  const uint64_t epochs = counts.epochs * evidence.files.repeats;
  if (evidence.files.repeats > 1) {
    sheet.set("train.epochs", train.epochs, epochs,
              fmt::format("{}, in each of which every file was read {} times",
                          counted(counts.epochs, "epoch", "epochs"), evidence.files.repeats));
  } else if (counts.epochs_marked) {
    sheet.set("train.epochs", train.epochs, epochs, "epochs that regions mark");
  } else {
    sheet.assume("train.epochs", train.epochs, epochs, "how often the dataset was read");
  }
}

// How many epochs pass from one evaluation to the next.
void set_schedule(const Evidence& evidence, Sheet& sheet) {
  bench::EvaluationConfig& evaluation = sheet.workload().evaluation;
  const Counts& counts = evidence.counts;
  const uint64_t between = std::max<uint64_t>(counts.epochs / counts.eval_passes, 1);
  sheet.set("evaluation.eval_after_epoch", evaluation.eval_after_epoch, between,
            "the first evaluation");
  sheet.set("evaluation.epochs_between_evals", evaluation.epochs_between_evals, between,
            fmt::format("{} in {}", counted(counts.eval_passes, "evaluation", "evaluations"),
                        counted(counts.epochs, "epoch", "epochs")));
  if (counts.eval_passes > counts.epochs) {
    sheet.missing(fmt::format("The job made {} in {}. A workload has at most one in an epoch.",
                              counted(counts.eval_passes, "evaluation", "evaluations"),
                              counted(counts.epochs, "epoch", "epochs")));
  }
}

void set_eval_batches(const Evidence& evidence, Sheet& sheet) {
  bench::ReaderConfig& reader = sheet.workload().reader;
  const Counts& counts = evidence.counts;
  const bench::DatasetConfig& dataset = sheet.workload().dataset;
  const uint64_t samples = dataset.num_files_eval * dataset.num_samples_per_file;
  sheet.set("reader.batch_size_eval", reader.batch_size_eval,
            std::clamp<uint64_t>(counts.eval_batch_size, 1, std::max<uint64_t>(samples, 1)),
            fmt::format("{} samples in {} of an evaluation", format_exact(counts.eval_samples),
                        counted(counts.eval_batches, "batch", "batches")));
}

}  // namespace

void derive_reader(const Evidence& evidence, Sheet& sheet) {
  set_loader(evidence.profile, sheet);
  set_batches(evidence, sheet);
  if (evidence.counts.eval_passes > 0) set_eval_batches(evidence, sheet);
  set_workers(evidence, sheet);
  set_order(evidence, sheet);
  set_access(evidence, sheet);
  set_transfer_size(evidence, sheet);
  set_preprocessing(evidence.profile, sheet);
}

void derive_training(const Evidence& evidence, Sheet& sheet) {
  set_epochs(evidence, sheet);
  set_compute(evidence, sheet, step_times_of(evidence.profile));
  const analyze::DataUse& data = evidence.profile.data;
  if (data.order == ReadOrder::kFixed) {
    sheet.set("train.seed_change_epoch", sheet.workload().train.seed_change_epoch, false,
              "the order is the same in every epoch");
  }
}

void derive_evaluation(const Evidence& evidence, Sheet& sheet) {
  if (evidence.counts.eval_passes == 0) return;
  set_schedule(evidence, sheet);
  const StepTimes times = step_times_of(evidence.profile);
  bench::TimeModel& place = sheet.workload().evaluation.eval_time;
  const double each_s = eval_step_s(evidence.profile, evidence.counts, times);
  if (each_s > 0) {
    sheet.set("evaluation.eval_time", place, bench::TimeModel{.first = rounded(each_s)},
              "time between epochs without waiting, checkpoints and setup, for each batch");
    return;
  }
  sheet.assume("evaluation.eval_time", place, bench::TimeModel{.first = rounded(times.mean_s / 3)},
               "a third of a training step: only the forward pass");
  sheet.assumption("A batch of an evaluation takes a third of a training step.");
}

}  // namespace millrace::model
