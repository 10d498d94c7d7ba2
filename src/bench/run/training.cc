#include "bench/run/training.h"

#include <millrace/trace.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/system/clock.h"
#include "base/text/phrases.h"
#include "base/text/units.h"
#include "bench/checkpoint/schedule.h"
#include "bench/run/batch_feed.h"
#include "bench/samples/samples.h"
#include "bench/workload/times.h"

namespace millrace::bench {
namespace {

using std::chrono::nanoseconds;

uint64_t since(nanoseconds begin) {
  return static_cast<uint64_t>((monotonic_now() - begin).count());
}

// `random` shuffles differently in every run, but equally on all ranks.
Result<uint64_t> seed_of(const Workload& workload, comm::Comm& comm) {
  const bool random = workload.reader.file_shuffle == Shuffle::kRandom ||
                      workload.reader.sample_shuffle == Shuffle::kRandom;
  if (!random) return workload.train.seed;
  uint64_t seed = (uint64_t{std::random_device()()} << 32) | std::random_device()();
  std::string bytes(reinterpret_cast<const char*>(&seed), sizeof(seed));
  RETURN_IF_ERROR(comm.broadcast(bytes, comm::kFirstRank));
  std::memcpy(&seed, bytes.data(), sizeof(seed));
  return seed;
}

// The batches of one split, and what was read for them.
class SplitFeed {
 public:
  static Result<SplitFeed> open(const Workload& workload, const Layout& layout, Split split,
                                uint64_t seed, comm::Comm& comm) {
    SplitFeed feed;
    const bool trains = split == Split::kTrain;
    const loader::order::World world{comm::index_of(comm.rank()), comm.size()};
    const uint64_t batch_size =
        trains ? workload.reader.batch_size : workload.reader.batch_size_eval;
    if (workload.dataset.format == DatasetFormat::kSynthetic) {
      feed.batches_ =
          null_feed(layout.file_count(split) * layout.samples_per_file(), batch_size, world);
      return feed;
    }
    ASSIGN_OR_RETURN(feed.dataset_, open_dataset(workload, layout, split));
    feed.options_ = {.reader = workload.reader,
                     .batch_size = batch_size,
                     .world = world,
                     .seed = seed,
                     .epoch_count = trains ? workload.train.epochs : 0};
    return feed;
  }

  // After open(), which may read the files for their index.
  Status start(const Workload& workload) {
    if (batches_ != nullptr) return {};
    RETURN_IF_ERROR(read_if_in_memory(workload, dataset_));
    options_.source = dataset_.source;
    options_.decoder = dataset_.decoder;
    ASSIGN_OR_RETURN(batches_, open_feed(std::move(options_)));
    return {};
  }

  // All ranks leave out the same files, so the first one counts them.
  void count_left_out() {
    if (options_.world.rank == 0) left_out_ += dataset_.left_out_count;
  }
  uint64_t bad_samples() const { return batches_->bad_samples() + left_out_; }
  std::string first_bad_sample() const {
    return left_out_ > 0 ? dataset_.first_left_out : batches_->first_bad_sample();
  }
  uint64_t checked_samples() const {
    return dataset_.checks ? dataset_.checks->sample_count.load() : 0;
  }
  uint64_t check_ns() const { return dataset_.checks ? dataset_.checks->nanoseconds.load() : 0; }

  BatchFeed& batches() { return *batches_; }
  uint64_t bytes_read() const { return dataset_.counts ? dataset_.counts->bytes.load() : 0; }
  uint64_t reads() const { return dataset_.counts ? dataset_.counts->reads.load() : 0; }
  QuantileSketch latencies() const {
    return dataset_.latencies ? dataset_.latencies->all() : QuantileSketch();
  }

 private:
  OpenedDataset dataset_;
  FeedOptions options_;                 // of the batches
  std::unique_ptr<BatchFeed> batches_;  // after the dataset, whose source it reads
  uint64_t left_out_ = 0;               // samples of files that were left out, of all passes
};

struct SavedAt {
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint64_t total_step = 0;
};

class Training {
 public:
  Training(const Workload& workload, const Layout& layout, comm::Comm& comm,
           const TrainingOptions& options)
      : workload_(workload),
        layout_(layout),
        comm_(comm),
        options_(options),
        pace_(workload.output.exclude_start_steps),
        compute_times_(workload.train.computation_time, workload.train.seed),
        eval_times_(workload.evaluation.eval_time, workload.train.seed + 1),
        schedule_(workload.checkpoint) {}

  Result<RankRun> run() {
    ask_for_precise_sleeps();
    RETURN_IF_ERROR(open());
    begin_ = monotonic_now();
    run_.setup = begin_ - options_.started;
    if (workload_.workflow.train) RETURN_IF_ERROR(run_epochs());
    if (checkpointer_) RETURN_IF_ERROR(finish_checkpoints());
    collect(train_);
    collect(eval_);
    return std::move(run_);
  }

 private:
  Status open() {
    const Region region(MILLRACE_SETUP);
    ASSIGN_OR_RETURN(const uint64_t seed, seed_of(workload_, comm_));
    if (workload_.workflow.train) {
      ASSIGN_OR_RETURN(train_, SplitFeed::open(workload_, layout_, Split::kTrain, seed, comm_));
    }
    if (evaluates()) {
      ASSIGN_OR_RETURN(eval_, SplitFeed::open(workload_, layout_, Split::kEval, seed, comm_));
    }
    if (workload_.workflow.checkpoint) {
      ASSIGN_OR_RETURN(checkpointer_,
                       Checkpointer::open(workload_, comm_, {.only_reads = only_reads()}));
      RETURN_IF_ERROR(check_readable());
    }
    RETURN_IF_ERROR(start_feeds());
    return comm_.barrier();
  }

  // The index of some formats takes a look at every file, on every rank.
  Status start_feeds() {
    if (!train_ || workload_.dataset.format == DatasetFormat::kSynthetic) return {};
    RETURN_IF_ERROR(comm_.barrier());
    if (options_.prepare_cache) RETURN_IF_ERROR(options_.prepare_cache());
    RETURN_IF_ERROR(comm_.barrier());
    run_.cached_share = cached_share(files_of(layout_, Split::kTrain));
    RETURN_IF_ERROR(comm_.barrier());
    RETURN_IF_ERROR(train_->start(workload_));
    return eval_ ? eval_->start(workload_) : Status();
  }

  bool evaluates() const {
    return workload_.workflow.train && workload_.workflow.evaluation &&
           layout_.file_count(Split::kEval) > 0;
  }

  Status run_epochs() {
    for (epoch_ = 1; epoch_ <= workload_.train.epochs && !is_complete(); ++epoch_) {
      RETURN_IF_ERROR(run_pass(*train_, Split::kTrain));
      if (evaluates() && is_eval_due()) RETURN_IF_ERROR(run_pass(*eval_, Split::kEval));
      RETURN_IF_ERROR(save_if_due({.epoch = epoch_,
                                   .step = run_.passes.back().steps.size(),
                                   .is_epoch_end = true,
                                   .elapsed = monotonic_now() - begin_}));
    }
    return {};
  }

  bool is_complete() const {
    const uint64_t limit = workload_.train.total_training_steps;
    return limit > 0 && step_ >= limit;
  }

  bool is_eval_due() const {
    const EvaluationConfig& evaluation = workload_.evaluation;
    return epoch_ >= evaluation.eval_after_epoch &&
           (epoch_ - evaluation.eval_after_epoch) % evaluation.epochs_between_evals == 0;
  }

  Status run_pass(SplitFeed& feed, Split split) {
    RETURN_IF_ERROR(comm_.barrier());
    const bool trains = split == Split::kTrain;
    const Region region(trains ? MILLRACE_EPOCH : MILLRACE_EVALUATE);
    millrace_set_epoch(static_cast<uint32_t>(epoch_ - 1));
    Pass pass{.split = split, .epoch = epoch_, .wall_begin = wall_now()};
    const uint64_t bytes_before = feed.bytes_read();
    const uint64_t reads_before = feed.reads();
    const nanoseconds begin = monotonic_now();
    const bool reshuffles = workload_.train.seed_change_epoch;
    const std::string name =
        fmt::format("{} {}", trains ? "epoch" : "evaluation after epoch", epoch_);
    note(name + " begins");
    RETURN_IF_ERROR(feed.batches().start_epoch(data::Epoch{reshuffles ? epoch_ - 1 : 0}));
    RETURN_IF_ERROR(run_steps(feed.batches(), begin, pass));
    pass.duration_ns = since(begin) - pass.checkpoint_ns;
    pass.end_block(pass.duration_ns);
    feed.count_left_out();
    pass.wall_end = wall_now();
    pass.bytes_read = feed.bytes_read() - bytes_before;
    pass.reads = feed.reads() - reads_before;
    note(fmt::format("{} ends: {}, {}, {} read in {:.3f} s", name,
                     counted(pass.steps.size(), "step", "steps"),
                     counted(pass.samples, "sample", "samples"), format_bytes(pass.bytes_read),
                     static_cast<double>(pass.duration_ns) * 1e-9));
    run_.passes.push_back(std::move(pass));
    return comm_.barrier();
  }

  Status run_steps(BatchFeed& batches, nanoseconds begin, Pass& pass) {
    const bool trains = pass.split == Split::kTrain;
    nanoseconds end = monotonic_now();
    pace_.begin_pass();
    while (!(trains && is_complete())) {
      trains ? millrace_set_step(step_) : millrace_clear_step();  // an evaluation is no step
      ASSIGN_OR_RETURN(const auto waited, wait_for_batch(batches));
      if (waited.samples == 0) break;
      Step step{.wait_ns = waited.wait_ns};
      compute(trains ? compute_times_ : eval_times_, step);
      step.whole_ns = since(end);
      end = monotonic_now();
      pass.steps.push_back(step);
      pass.samples += waited.samples;
      if (options_.on_step) options_.on_step(waited.samples);
      if (!trains) continue;
      ++step_;
      if (!checkpointer_) continue;
      const uint64_t elapsed_ns = since(begin) - pass.checkpoint_ns;
      const uint64_t saved_before = schedule_.saved_count();
      RETURN_IF_ERROR(save_if_due(
          {.epoch = epoch_, .step = pass.steps.size(), .elapsed = monotonic_now() - begin_}));
      if (schedule_.saved_count() > saved_before) pass.end_block(elapsed_ns);
      pass.checkpoint_ns += since(end);
      end = monotonic_now();
    }
    millrace_clear_step();  // the end of an epoch is no step
    return {};
  }

  struct Waited {
    uint64_t samples = 0;
    uint64_t wait_ns = 0;
  };
  static Result<Waited> wait_for_batch(BatchFeed& batches) {
    static millrace_name batch_wait = {MILLRACE_BATCH_WAIT, 0};
    millrace_region region;
    millrace_region_begin(&region, &batch_wait);
    const nanoseconds begin = monotonic_now();
    ASSIGN_OR_RETURN(const uint64_t samples, batches.next());
    const uint64_t wait_ns = since(begin);
    if (samples > 0) millrace_region_end(&region);  // the end of an epoch is no step
    return Waited{samples, wait_ns};
  }

  void compute(TimeSampler& times, Step& step) {
    static Name compute_name(MILLRACE_COMPUTE);
    const Region region(compute_name);
    const nanoseconds begin = monotonic_now();
    step.nominal_ns = static_cast<uint64_t>(times.next() * 1e9);
    wait_until(begin, nanoseconds(pace_.begin_step(step.nominal_ns)), options_.compute);
    step.compute_ns = since(begin);
    pace_.end_step(step.compute_ns);
  }

  void note(const std::string& text) const {
    if (options_.log != nullptr) options_.log->add(text);
  }

  Status save_if_due(const TrainingMoment& moment) {
    if (!checkpointer_) return {};
    RETURN_IF_ERROR(checkpointer_->poll());
    ASSIGN_OR_RETURN(const bool due, is_due_on_all(schedule_, moment, comm_));
    return due ? save(moment) : Status();
  }

  Status save(const TrainingMoment& moment) {
    const Region region(MILLRACE_CHECKPOINT);
    schedule_.saved(moment);
    saved_.push_back({moment.epoch, moment.step, step_});
    const std::string name =
        fmt::format("checkpoint in epoch {} after step {}", moment.epoch, step_);
    note(name + " begins");
    RETURN_IF_ERROR(checkpointer_->save(moment.epoch, moment.step, step_));
    note(name + " ends");
    return {};
  }

  // A workload without training writes and reads its checkpoints here, as DLIO does: those of
  // steps 1 to num_checkpoints_write, and 1 to num_checkpoints_read. Without writing, it reads what
  // an earlier run wrote, so that the two can be measured apart.
  Status finish_checkpoints() {
    if (!workload_.workflow.train) {
      for (uint64_t i = 0; i < schedule_.write_count_alone(); ++i) {
        wait_until(monotonic_now(), schedule_.pause(), options_.compute);
        ++step_;
        RETURN_IF_ERROR(save({.epoch = 1, .step = step_, .elapsed = monotonic_now() - begin_}));
      }
    }
    RETURN_IF_ERROR(checkpointer_->finish());
    for (const SavedAt& each : to_read_back()) {
      if (!workload_.workflow.train) {
        wait_until(monotonic_now(), schedule_.pause(), options_.compute);
      }
      const Region region(MILLRACE_RESTORE);
      RETURN_IF_ERROR(checkpointer_->load(each.epoch, each.step, each.total_step));
    }
    for (const CheckpointResult& result : checkpointer_->results()) {
      (result.is_load ? run_.loads : run_.saves).push_back(result);
    }
    run_.notes.insert(run_.notes.end(), checkpointer_->notes().begin(),
                      checkpointer_->notes().end());
    return {};
  }

  // A training reads back the first ones that it wrote and that `keep` has left.
  std::vector<SavedAt> to_read_back() {
    std::vector<SavedAt> wanted;
    if (!workload_.workflow.train) {
      for (uint64_t i = 1; i <= schedule_.read_count(); ++i) wanted.push_back({1, i, i});
      return wanted;
    }
    wanted = saved_;
    const uint64_t keep = workload_.checkpoint.keep;
    if (keep > 0 && wanted.size() > keep)
      wanted.erase(wanted.begin(), wanted.end() - static_cast<ptrdiff_t>(keep));
    if (wanted.size() < schedule_.read_count() && comm_.speaks()) {
      run_.notes.push_back(fmt::format(
          "checkpoint.num_checkpoints_read is {}, but {} of this training can be read back",
          schedule_.read_count(), counted(wanted.size(), "checkpoint", "checkpoints")));
    }
    wanted.resize(std::min<size_t>(wanted.size(), schedule_.read_count()));
    return wanted;
  }

  bool only_reads() const {
    return workload_.workflow.train ? workload_.checkpoint.num_checkpoints_write == 0
                                    : schedule_.write_count_alone() == 0;
  }

  // Before hours of writing: whether there will be all that is to be read.
  Status check_readable() {
    if (workload_.workflow.train) return {};
    Status status;
    if (comm_.rank() == comm::kFirstRank) status = find_missing();
    return comm_.agree(status);
  }

  Status find_missing() const {
    const CheckpointConfig& config = workload_.checkpoint;
    ASSIGN_OR_RETURN(const auto there, find_checkpoints(config.checkpoint_folder));
    const uint64_t written = schedule_.write_count_alone();
    for (uint64_t i = 1; i <= schedule_.read_count(); ++i) {
      const bool is_removed = config.keep > 0 && i + config.keep <= written;
      const CheckpointId id{.epoch = 1, .step = i};
      if (i <= written && !is_removed) continue;
      const std::string path = checkpoint_path(config.checkpoint_folder, id).native();
      if (is_removed) {
        return fail(Errc::kInvalidArgument,
                    "{}: would be removed before it is read back, because checkpoint.keep is {}; "
                    "keep as many as num_checkpoints_read asks for, {}",
                    path, config.keep, schedule_.read_count());
      }
      if (i > written && std::ranges::find(there, id) != there.end()) continue;
      return fail(Errc::kNotFound,
                  "{}: there is no such checkpoint, but checkpoint.num_checkpoints_read asks for "
                  "{}; write as many first (num_checkpoints_write), or read fewer",
                  path, schedule_.read_count());
    }
    return {};
  }

  void collect(std::optional<SplitFeed>& feed) {
    if (!feed) return;
    run_.sample_latency_ns.merge(feed->latencies());
    run_.checked_samples += feed->checked_samples();
    run_.check_ns += feed->check_ns();
    run_.bad_samples += feed->bad_samples();
    if (run_.first_bad_sample.empty()) run_.first_bad_sample = feed->first_bad_sample();
  }

  const Workload& workload_;
  const Layout& layout_;
  comm::Comm& comm_;
  const TrainingOptions& options_;
  ComputePace pace_;
  TimeSampler compute_times_;
  TimeSampler eval_times_;
  CheckpointSchedule schedule_;
  std::optional<SplitFeed> train_;
  std::optional<SplitFeed> eval_;
  std::unique_ptr<Checkpointer> checkpointer_;
  std::vector<SavedAt> saved_;
  nanoseconds begin_{};
  uint64_t epoch_ = 1;  // counted from 1
  uint64_t step_ = 0;   // of the whole run
  RankRun run_;
};

}  // namespace

void Pass::end_block(uint64_t elapsed_ns) {
  Block block{.steps = steps.size(), .duration_ns = elapsed_ns};
  for (const Block& before : blocks) {
    block.steps -= before.steps;
    block.duration_ns -= before.duration_ns;
  }
  if (block.steps > 0) blocks.push_back(block);
}

Result<RankRun> run_training(const Workload& workload, comm::Comm& comm,
                             const TrainingOptions& options) {
  ASSIGN_OR_RETURN(const Layout layout, Layout::of(workload));
  auto run = Training(workload, layout, comm, options).run();
  RETURN_IF_ERROR(comm.agree(run.ok() ? Status() : Status(run.error())));
  return run;
}

}  // namespace millrace::bench
