#include "loader/shard_loader.h"

#include <millrace/trace.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "comm/single.h"
#include "loader/exchange/held_shard.h"
#include "loader/order/share.h"

namespace millrace::loader {
namespace {

constinit Name setup_region{MILLRACE_SETUP};
constinit Name wait_region{MILLRACE_BATCH_WAIT};

Status check(const LoaderOptions& options) {
  if (options.shuffle != Shuffle::kPartial) {
    return fail(Errc::kInvalidArgument,
                "shard storage needs shuffle 'partial'; this loader's is '{}'",
                order::shuffle_name(options.shuffle));
  }
  if (options.shard_count != 0 && options.shard_count != options.world.size) {
    return fail(Errc::kInvalidArgument,
                "with shard storage, each of the {} ranks has one shard, but shard_count is {}; "
                "leave shard_count out",
                options.world.size, options.shard_count);
  }
  if (options.tiers.any()) {
    return fail(Errc::kInvalidArgument,
                "the samples of this rank are already on its own storage; do not combine shard "
                "storage with tiers");
  }
  const comm::Comm& comm = *options.shard.comm;
  if (comm::index_of(comm.rank()) == options.world.rank && comm.size() == options.world.size) {
    return {};
  }
  return fail(Errc::kInvalidArgument,
              "the loader is rank {} of {}, but its communicator is rank {} of {}; the two must be "
              "equal",
              options.world.rank, options.world.size, comm::index_of(comm.rank()), comm.size());
}

// Whether the loader was asked to stop; for waits outside of the loader.
struct Interruption {
  std::atomic<bool> is_cancelled = false;
  std::function<bool()> poll;

  bool operator()() const { return is_cancelled || (poll && poll()); }
};

class ShardLoader final : public Loader {
 public:
  struct Parts {
    std::shared_ptr<Interruption> interruption;  // shared with the shard's waits
    std::unique_ptr<exchange::HeldShard> shard;
    std::unique_ptr<Loader> batches;  // destroyed before what it reads from
    order::ShareOptions share;
  };

  explicit ShardLoader(Parts parts) : parts_(std::move(parts)), process_(getpid()) {}

  Status start_epoch(data::Epoch epoch) override {
    RETURN_IF_ERROR(begin(epoch, 0));
    return start([&] { return parts_.batches->start_epoch(epoch); });
  }

  Status set_batch_size(uint64_t batch_size) override {
    RETURN_IF_ERROR(check_process());
    RETURN_IF_ERROR(parts_.batches->set_batch_size(batch_size));
    parts_.share.batch_size = batch_size;
    return {};
  }

  Result<std::optional<data::Batch>> next() override;

  bool is_ready() const override { return failure_.has_value() || parts_.batches->is_ready(); }
  void count_wait(std::chrono::nanoseconds waited) override { parts_.batches->count_wait(waited); }

  void cancel() override {
    parts_.interruption->is_cancelled = true;
    parts_.batches->cancel();
  }

  uint64_t batch_count() const override { return parts_.batches->batch_count(); }
  const order::Order& order() const override { return parts_.batches->order(); }
  LoaderState state() const override { return parts_.batches->state(); }
  std::optional<data::Epoch> storage_epoch() const override {
    return parts_.shard->storage_epoch();
  }
  Status restore(const LoaderState& state) override;

  LoaderStats stats() const override {
    LoaderStats stats = parts_.batches->stats();
    stats.shard = parts_.shard->stats();
    return stats;
  }

 private:
  Status check_process() const;
  Status begin(data::Epoch epoch, uint64_t done);
  template <typename Start>
  Status start(Start start_batches);
  Status end_epoch();
  bool is_over(uint64_t done) const;
  bool is_exchanging() const {
    return parts_.shard->is_exchanging() && parts_.shard->epoch() == epoch_;
  }

  Parts parts_;
  pid_t process_;
  data::Epoch epoch_{};
  std::optional<Error> failure_;  // of the exchange, since begin()
  uint64_t taken_ = 0;            // batches taken since begin()
  uint64_t left_ = 0;             // batches left at begin()
};

Status ShardLoader::check_process() const {
  if (getpid() == process_) return {};
  return fail(Errc::kUnsupported,
              "the loader exchanges samples with other ranks in process {}; this is process {}, "
              "forked from it; open the loader in the process that uses it",
              process_, getpid());
}

// Whether no rank has a batch left. Rank 0 has the most.
bool ShardLoader::is_over(uint64_t done) const {
  order::ShareOptions first = parts_.share;
  first.world.rank = 0;
  first.done = done;
  return done > 0 && order::Share(first).batch_count() == 0;
}

// Brings the storage to the epoch. All ranks decide alike, because they decide from shared facts.
Status ShardLoader::begin(data::Epoch epoch, uint64_t done) {
  RETURN_IF_ERROR(check_process());
  parts_.interruption->is_cancelled = false;
  order::ShareOptions share = parts_.share;
  share.done = done;
  epoch_ = epoch;
  failure_.reset();
  taken_ = 0;
  left_ = order::Share(share).batch_count();
  // An epoch that was consumed to its end needs no reads, and its exchange is done.
  const data::Epoch after{data::number_of(epoch) + 1};
  if (is_over(done) && parts_.shard->epoch() == after) return {};
  if (parts_.shard->epoch() == epoch) return {};
  const Region region(setup_region);
  return parts_.shard->bring_to(epoch);
}

// An exchange of the epoch that is already in progress continues: it does not depend on what is
// read.
template <typename Start>
Status ShardLoader::start(Start start_batches) {
  RETURN_IF_ERROR(start_batches());
  const bool is_due = parts_.shard->epoch() == epoch_ && !parts_.shard->is_exchanging();
  return is_due ? parts_.shard->start_exchange() : Status();
}

// Training waits here until all ranks have the next epoch.
Status ShardLoader::end_epoch() {
  Region region(wait_region);
  region.epoch(static_cast<uint32_t>(data::number_of(epoch_)));
  return parts_.shard->finish_exchange();
}

Result<std::optional<data::Batch>> ShardLoader::next() {
  RETURN_IF_ERROR(check_process());
  if (failure_) return *failure_;
  auto batch = parts_.batches->next();
  if (!batch.ok() || !is_exchanging()) return batch;
  const Status exchanged = *batch ? parts_.shard->advance(++taken_, left_) : end_epoch();
  if (exchanged.ok()) return batch;
  // kCancelled, so that it does not count as a bad sample: the job cannot continue.
  failure_ = Error(Errc::kCancelled, exchanged.error().message());
  return *failure_;
}

Status ShardLoader::restore(const LoaderState& state) {
  const uint32_t own = parts_.share.world.size;
  if (state.order.shard_count != own) {
    return fail(
        Errc::kInvalidArgument,
        "the state was saved by {} ranks with shard storage, and there are {}; start the job "
        "with {} ranks, or read the samples from the dataset instead of the shard storage",
        state.order.shard_count, own, state.order.shard_count);
  }
  // Check the state before moving any samples for it.
  RETURN_IF_ERROR(check_continues(state, this->state()));
  RETURN_IF_ERROR(begin(state.epoch, state.done));
  return start([&] { return parts_.batches->restore(state); });
}

order::Options order_of(const LoaderOptions& options) {
  return {.shuffle = Shuffle::kPartial,
          .sample_count = options.source->sample_count(),
          .seed = options.seed,
          .shard_count = options.world.size,
          .fraction = options.fraction};
}

exchange::StagingOptions staging_of(const LoaderOptions& options,
                                    const std::shared_ptr<Interruption>& interruption) {
  return {.skips_unreadable = options.skips_bad_samples,
          .shows_progress = options.shard.shows_progress && options.shard.comm->speaks(),
          .is_interrupted = [interruption] { return (*interruption)(); }};
}

Result<std::unique_ptr<Loader>> open_parts(LoaderOptions options) {
  RETURN_IF_ERROR(check(options));
  RETURN_IF_ERROR(order::check_order(order_of(options)));
  ShardLoader::Parts parts;
  parts.interruption = std::make_shared<Interruption>();
  parts.interruption->poll = options.is_interrupted;
  parts.share = {.sample_count = options.source->sample_count(),
                 .world = options.world,
                 .batch_size = options.batch_size,
                 .tail = options.tail};
  ASSIGN_OR_RETURN(parts.shard,
                   exchange::HeldShard::open({.directory = options.shard.directory,
                                              .order = order_of(options),
                                              .dataset = options.source,
                                              .comm = options.shard.comm,
                                              .staging = staging_of(options, parts.interruption)}));
  options.shard_count = options.world.size;
  options.shard = {};
  // A rank without samples pads its batches with samples of other ranks, so it reads the dataset.
  if (parts.shard->storage().slot_count() > 0) options.source = parts.shard->source();
  ASSIGN_OR_RETURN(parts.batches, Loader::open(std::move(options)));
  return std::unique_ptr<Loader>(new ShardLoader(std::move(parts)));
}

}  // namespace

Result<std::unique_ptr<Loader>> open_shard_loader(LoaderOptions options) {
  if (!options.shard.comm) options.shard.comm = comm::single();
  const std::shared_ptr<comm::Comm> comm = options.shard.comm;
  auto opened = open_parts(std::move(options));
  // Otherwise the other ranks would wait for one that has failed.
  RETURN_IF_ERROR(exchange::agree_all(*comm, opened.ok() ? Status() : Status(opened.error())));
  return opened;
}

}  // namespace millrace::loader
