#include "loader/loader.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/concurrency/mutex.h"
#include "base/system/cpus.h"
#include "base/text/units.h"
#include "data/fingerprint.h"
#include "loader/pipeline/pipeline.h"
#include "loader/shard_loader.h"

namespace millrace::loader {
namespace {

constexpr uint32_t kThreadCountMax = 4096;
constexpr uint32_t kIoDepthMax = 4096;

bool has_shards(Shuffle shuffle) {
  return shuffle == Shuffle::kLocal || shuffle == Shuffle::kPartial;
}

Status check_batch_size(uint64_t batch_size) {
  if (batch_size > 0 && batch_size <= order::Share::kBatchSizeMax) return {};
  return fail(Errc::kInvalidArgument, "batch_size is {}; it must be 1 to {}", batch_size,
              order::Share::kBatchSizeMax);
}

Status check(const LoaderOptions& options) {
  if (!options.source) return fail(Errc::kInvalidArgument, "a loader needs a source");
  if (!options.decoder) return fail(Errc::kInvalidArgument, "a loader needs a decoder");
  RETURN_IF_ERROR(check_batch_size(options.batch_size));
  if (options.world.rank >= options.world.size) {
    return fail(Errc::kInvalidArgument,
                "rank {} does not exist in a world of {}; ranks are numbered from 0",
                options.world.rank, options.world.size);
  }
  if (options.thread_count > kThreadCountMax) {
    return fail(Errc::kInvalidArgument, "thread_count is {}; it must be at most {}",
                options.thread_count, kThreadCountMax);
  }
  if (options.io_depth == 0 || options.io_depth > kIoDepthMax) {
    return fail(Errc::kInvalidArgument, "io_depth is {}; it must be 1 to {}", options.io_depth,
                kIoDepthMax);
  }
  if (options.read_deadline.count() <= 0) {
    return fail(Errc::kInvalidArgument, "read_deadline must be positive");
  }
  const auto fields = options.decoder->fields();
  if (options.decoder->is_verbatim() && (fields.size() != 1 || fields[0].is_ragged())) {
    return fail(Errc::kInvalidArgument,
                "the decoder passes samples through undecoded, so it must have 1 field of a fixed "
                "length, not {}",
                fields.size() != 1 ? fmt::format("{} fields", fields.size()) : "a ragged one");
  }
  return {};
}

// Sets only what determines the order, so that equal orders have equal options.
order::Options order_options(const LoaderOptions& options) {
  order::Options order{.shuffle = options.shuffle,
                       .sample_count = options.source->sample_count(),
                       .seed = options.seed};
  if (!order::is_permutation(options.shuffle)) {
    order.position_count = options.position_count;
    order.drawing = options.drawing;
  }
  if (has_shards(options.shuffle)) {
    order.shard_count = options.shard_count > 0 ? options.shard_count : options.world.size;
  }
  if (options.shuffle == Shuffle::kPartial) order.fraction = options.fraction;
  if (options.shuffle == Shuffle::kFile) {
    const uint64_t group_count = options.source->group_count();
    order.group_begins.reserve(group_count + 1);
    for (uint64_t group = 0; group <= group_count; ++group) {
      order.group_begins.push_back(data::index_of(options.source->group_begin(group)));
    }
  }
  return order;
}

Result<pipeline::BatchLayout> make_layout(const LoaderOptions& options, uint64_t position_count) {
  const uint64_t most = std::max<uint64_t>(position_count, 1);
  const uint64_t rows =
      options.tail == Tail::kPad ? options.batch_size : std::min(options.batch_size, most);
  ASSIGN_OR_RETURN(pipeline::BatchLayout layout,
                   pipeline::BatchLayout::make(options.decoder->fields(), rows));
  if (layout.size_bytes > options.memory_bytes) {
    return fail(Errc::kInvalidArgument,
                "a batch of {} samples takes {}, but memory_bytes allows only {}; use a smaller "
                "batch_size or raise memory_bytes",
                rows, format_bytes(layout.size_bytes), format_bytes(options.memory_bytes));
  }
  return layout;
}

// Tiers have a thread, so they are opened with the first epoch. Report their errors in open().
Status check_tiers(const LoaderOptions& options) {
  const TierOptions& tiers = options.tiers;
  if (!tiers.any() && tiers.messages) {
    return fail(Errc::kInvalidArgument,
                "ranks can serve each other only samples that they keep; set the memory or disk "
                "to keep them in");
  }
  if (tiers.disk_bytes == 0) return {};
  ASSIGN_OR_RETURN(std::shared_ptr<io::Engine> engine, io::open_engine("posix"));
  const auto tried = tiers::Disk::open({.engine = std::move(engine),
                                        .directory = tiers.disk_directory,
                                        .capacity_bytes = tiers.disk_bytes});
  if (tried.ok()) return {};
  return fail(tried.error().code(), "samples cannot be kept in {}: {}",
              tiers.disk_directory.native(), tried.error().message());
}

class ThreadedLoader final : public Loader {
 public:
  ThreadedLoader(LoaderOptions options, std::shared_ptr<const order::Order> order,
                 pipeline::BatchLayout layout)
      : options_(std::move(options)), layout_(std::move(layout)), order_(std::move(order)) {}

  Status start_epoch(data::Epoch epoch) override;
  Status set_batch_size(uint64_t batch_size) override;
  Result<std::optional<data::Batch>> next() override;
  bool is_ready() const override;
  void count_wait(std::chrono::nanoseconds waited) override;
  void cancel() override;
  uint64_t batch_count() const override { return batch_count_; }
  const order::Order& order() const override { return *order_; }
  LoaderState state() const override;
  Status restore(const LoaderState& state) override;
  LoaderStats stats() const override;

 private:
  std::shared_ptr<const data::SampleSource> source() const {
    return tiers_ ? tiers_ : options_.source;
  }
  Status check_process() const;
  uint32_t dataset() const;
  Status check_shards(const LoaderState& state) const;
  order::ShareOptions share_options(uint64_t done) const;
  pipeline::Options pipeline_options() const;
  uint64_t epoch_count() const {
    return options_.epoch_count > 0 ? options_.epoch_count : ~uint64_t{0};
  }
  Result<std::shared_ptr<tiers::TieredSource>> open_tiers() const;
  Status open_pipeline();
  Status begin(data::Epoch epoch, uint64_t done);
  void announce(const pipeline::BatchSchedule& schedule) const;
  Status judge_bad_rows(pipeline::BatchWork& work);

  LoaderOptions options_;                      // only batch_size changes
  pipeline::BatchLayout layout_;               // of a batch
  std::shared_ptr<const order::Order> order_;  // shared with the batches in progress
  bool has_begun_ = false;                     // an epoch
  data::Epoch epoch_{};
  uint64_t done_ = 0;          // after the batches returned
  uint64_t batches_left_ = 0;  // of the epoch
  uint64_t batch_count_ = 0;

  // The consumer alone sets tiers_ and pipeline_, under the lock, and reads them without it.
  mutable Mutex mutex_;
  mutable std::optional<uint32_t> dataset_ GUARDED_BY(mutex_);  // its fingerprint, once computed
  std::shared_ptr<tiers::TieredSource> tiers_;    // null: none; shared with the pipeline's threads
  std::unique_ptr<pipeline::Pipeline> pipeline_;  // from the first epoch on; set by the consumer
  pipeline::Stats before_ GUARDED_BY(mutex_);     // of pipelines of other batch sizes
  LoaderStats counts_ GUARDED_BY(mutex_);         // what the pipeline does not count
};

Status ThreadedLoader::check_process() const {
  if (!pipeline_ || pipeline_->is_of_this_process()) return {};
  return fail(Errc::kCancelled,
              "process {} was forked after the loader had started, so it lacks the loader's "
              "threads; open a loader in each process after the fork, or start processes with "
              "spawn instead of fork",
              getpid());
}

order::ShareOptions ThreadedLoader::share_options(uint64_t done) const {
  return {.sample_count = order_->size(),
          .done = done,
          .world = options_.world,
          .batch_size = options_.batch_size,
          .tail = options_.tail};
}

pipeline::Options ThreadedLoader::pipeline_options() const {
  const uint64_t batches_max = std::clamp<uint64_t>(options_.memory_bytes / layout_.size_bytes, 1,
                                                    std::numeric_limits<uint32_t>::max());
  return {.lane = {.source = source(),
                   .decoder = options_.decoder,
                   .seed = options_.seed,
                   .io_depth = options_.io_depth},
          .tuner = {.cpu_count = static_cast<uint32_t>(usable_cpu_count()),
                    .fixed_thread_count = options_.thread_count,
                    .fixed_prefetch_batches = options_.prefetch_batches,
                    .prefetch_batches_max = static_cast<uint32_t>(batches_max),
                    .batch_size = options_.batch_size},
          .layout = layout_,
          .hooks = options_.memory_hooks,
          .memory_bytes = options_.memory_bytes,
          .read_deadline = options_.read_deadline,
          .is_interrupted = options_.is_interrupted,
          .marks_waits = options_.marks_waits,
          .on_ready = options_.on_ready};
}

Status ThreadedLoader::start_epoch(data::Epoch epoch) {
  RETURN_IF_ERROR(check_process());
  return begin(epoch, 0);
}

// A new pipeline, because its buffers have the size of a batch. Prefetched batches are lost, and
// read again in other batches.
Status ThreadedLoader::set_batch_size(uint64_t batch_size) {
  RETURN_IF_ERROR(check_process());
  RETURN_IF_ERROR(check_batch_size(batch_size));
  LoaderOptions wanted = options_;
  wanted.batch_size = batch_size;
  ASSIGN_OR_RETURN(pipeline::BatchLayout layout, make_layout(wanted, order_->size()));
  options_.batch_size = batch_size;
  layout_ = std::move(layout);
  has_begun_ = false;
  if (tiers_) tiers_->set_batch_size(batch_size);
  std::unique_ptr<pipeline::Pipeline> old;  // ends its threads without the lock
  const MutexLock lock(mutex_);
  if (pipeline_) before_ += pipeline_->stats();
  old.swap(pipeline_);
  return {};
}

Result<std::shared_ptr<tiers::TieredSource>> ThreadedLoader::open_tiers() const {
  if (tiers_ || !options_.tiers.any()) return tiers_;
  ASSIGN_OR_RETURN(auto tiers,
                   tiers::TieredSource::open({.source = options_.source,
                                              .order = order_,
                                              .world = options_.world,
                                              .batch_size = options_.batch_size,
                                              .tail = options_.tail,
                                              .epoch_limit = epoch_count(),
                                              .memory_bytes = options_.tiers.memory_bytes,
                                              .disk_bytes = options_.tiers.disk_bytes,
                                              .disk_directory = options_.tiers.disk_directory,
                                              .messages = options_.tiers.messages}));
  return std::shared_ptr<tiers::TieredSource>(std::move(tiers));
}

// Not in open(): without threads, the process may still fork until the first epoch.
Status ThreadedLoader::open_pipeline() {
  ASSIGN_OR_RETURN(auto tiers, open_tiers());
  const MutexLock lock(mutex_);
  tiers_ = std::move(tiers);
  pipeline_ = std::make_unique<pipeline::Pipeline>(pipeline_options());
  return {};
}

Status ThreadedLoader::begin(data::Epoch epoch, uint64_t done) {
  if (!order_->knows(epoch)) {
    return fail(Errc::kInvalidArgument,
                "the list of epoch {} was not given; put it into the lists before the epoch starts",
                data::number_of(epoch));
  }
  if (!pipeline_) RETURN_IF_ERROR(open_pipeline());
  const order::ShareOptions share = share_options(done);
  const bool goes_on = source()->can_read_ahead();
  // After the last batch of an epoch the threads and the source are already in the next one, so
  // the source must not start it again. Otherwise the source starts before the threads do.
  const bool follows = has_begun_ && batches_left_ == 0 && done == 0 &&
                       data::number_of(epoch) == data::number_of(epoch_) + 1;
  const bool is_under_way = done == 0 && pipeline_->skip_to(epoch);
  if (!is_under_way || !follows) source()->start_epoch(epoch, done);
  // Repeating an epoch predicts another repetition, as in a validation loop without epochs.
  const uint64_t epoch_step = has_begun_ && epoch == epoch_ ? 0 : 1;
  const pipeline::BatchSchedule schedule(order_, share,
                                         {.epoch = epoch,
                                          .done = done,
                                          .epoch_step = epoch_step,
                                          .goes_on = goes_on,
                                          .epoch_count = epoch_count()});
  // A listed order is known for some epochs only, so the source needs it again.
  if (!is_under_way || !follows || !order_->is_permutation()) announce(schedule);
  if (!is_under_way) RETURN_IF_ERROR(pipeline_->restart(schedule));
  has_begun_ = true;
  epoch_ = epoch;
  done_ = done;
  batches_left_ = order::Share(share).batch_count();
  batch_count_ = pipeline::batches_before(share, done) + batches_left_;
  return {};
}

// The coming samples are those of the coming batches.
void ThreadedLoader::announce(const pipeline::BatchSchedule& schedule) const {
  if (!source()->wants_order()) return;
  source()->expect([schedule = pipeline::BatchSchedule(schedule)] {
    return [schedule = pipeline::BatchSchedule(schedule), samples = std::vector<data::SampleId>(),
            is_real = std::vector<uint8_t>(),
            at = size_t{0}]() mutable -> std::optional<data::SampleId> {
      while (at == samples.size()) {
        const auto batch = schedule.next();
        if (!batch) return std::nullopt;
        samples.resize(batch->plan.row_count);
        is_real.resize(batch->plan.row_count);
        batch->fill(samples, is_real);
        at = 0;
      }
      return samples[at++];
    };
  });
}

Result<std::optional<data::Batch>> ThreadedLoader::next() {
  RETURN_IF_ERROR(check_process());
  if (!has_begun_) {
    return fail(Errc::kInvalidArgument, "no epoch was started; call start_epoch() before next()");
  }
  if (batches_left_ == 0) return std::optional<data::Batch>();
  ASSIGN_OR_RETURN(const std::shared_ptr<pipeline::BatchWork> work, pipeline_->next());
  // From here on the batch counts as taken, even if it fails: the next call returns the one after.
  --batches_left_;
  if (work->failure()) {
    const auto sample = work->failed_sample();
    if (!sample) return Error(*work->failure());
    return Error(*work->failure()).within(source()->name(*sample));
  }
  RETURN_IF_ERROR(judge_bad_rows(*work));
  done_ = work->scheduled().done_after;
  data::Batch batch = work->batch();
  const MutexLock lock(mutex_);
  ++counts_.batches;
  counts_.samples += batch.row_count;
  return std::optional<data::Batch>(std::move(batch));
}

Status ThreadedLoader::judge_bad_rows(pipeline::BatchWork& work) {
  std::vector<pipeline::BadRow>& bad_rows = work.bad_rows();
  if (bad_rows.empty()) return {};
  // Report the first in batch order, whichever thread came first.
  std::ranges::sort(bad_rows, {}, &pipeline::BadRow::row);
  const Error& first = bad_rows.front().error;
  // kCancelled: the rank that would have sent them is lost. The samples are not bad.
  const auto is_lost = [](const pipeline::BadRow& row) {
    return row.error.code() == Errc::kCancelled;
  };
  if (const auto lost = std::ranges::find_if(bad_rows, is_lost); lost != bad_rows.end()) {
    return lost->error;
  }
  {
    const MutexLock lock(mutex_);
    counts_.bad_samples += bad_rows.size();
    if (counts_.first_bad_sample.empty()) counts_.first_bad_sample = first.message();
  }
  if (!options_.skips_bad_samples) return first;
  work.leave_out_bad_rows();
  return {};
}

bool ThreadedLoader::is_ready() const {
  return !has_begun_ || batches_left_ == 0 || !check_process().ok() || pipeline_->is_ready();
}

void ThreadedLoader::count_wait(std::chrono::nanoseconds waited) {
  if (pipeline_) pipeline_->count_wait(waited);
}

void ThreadedLoader::cancel() {
  const MutexLock lock(mutex_);
  if (pipeline_ && pipeline_->is_of_this_process()) pipeline_->cancel();
}

// Computed on first use: the first batch must not wait for the names of all samples.
uint32_t ThreadedLoader::dataset() const {
  const MutexLock lock(mutex_);
  if (!dataset_) dataset_ = data::fingerprint(*options_.source);
  return *dataset_;
}

LoaderState ThreadedLoader::state() const {
  LoaderState state = LoaderState::of(*order_, epoch_, done_);
  state.dataset = dataset();
  return state;
}

Status ThreadedLoader::check_shards(const LoaderState& state) const {
  if (!has_shards(options_.shuffle) || options_.shard_count == 0 ||
      state.order.shard_count == options_.shard_count) {
    return {};
  }
  return fail(Errc::kInvalidArgument,
              "the state has another order: its shard_count is {}, this loader's {}; open the "
              "loader with the options that the state was saved with",
              state.order.shard_count, options_.shard_count);
}

Status ThreadedLoader::restore(const LoaderState& state) {
  RETURN_IF_ERROR(check_process());
  LoaderState own = this->state();
  own.drawn_from = order_->drawn_from(state.epoch);
  RETURN_IF_ERROR(check_continues(state, own));
  RETURN_IF_ERROR(check_shards(state));
  if (state.order.shard_count != order_->options().shard_count) {
    // A world of another size saved it. Keep its number of shards, because the order must not
    // change.
    order::Options order = order_options(options_);
    order.shard_count = state.order.shard_count;
    ASSIGN_OR_RETURN(order_, order::make_order(order));
    if (tiers_) tiers_->follow(order_);
  }
  return begin(state.epoch, state.done);
}

LoaderStats ThreadedLoader::stats() const {
  const MutexLock lock(mutex_);
  LoaderStats stats = counts_;
  if (pipeline_ && !pipeline_->is_of_this_process()) return stats;
  pipeline::Stats sums = before_;
  if (pipeline_) sums += pipeline_->stats();
  stats.bytes_read = sums.lanes.bytes_read;
  stats.read = sums.lanes.read;
  stats.decode = sums.lanes.decode;
  stats.waited = sums.waited;
  stats.blocked = sums.blocked;
  stats.thread_count = sums.setting.thread_count;
  stats.prefetch_batches = sums.setting.prefetch_batches;
  stats.buffers_allocated = sums.buffers_allocated;
  stats.reads = sums.reads;
  if (tiers_) stats.tiers = tiers_->stats();
  return stats;
}

}  // namespace

Result<std::unique_ptr<Loader>> Loader::open(LoaderOptions options) {
  RETURN_IF_ERROR(check(options));
  if (!options.shard.directory.empty()) return open_shard_loader(std::move(options));
  RETURN_IF_ERROR(check_tiers(options));
  ASSIGN_OR_RETURN(std::shared_ptr<const order::Order> order,
                   order::make_order(order_options(options)));
  ASSIGN_OR_RETURN(pipeline::BatchLayout layout, make_layout(options, order->size()));
  return std::unique_ptr<Loader>(
      new ThreadedLoader(std::move(options), std::move(order), std::move(layout)));
}

}  // namespace millrace::loader
