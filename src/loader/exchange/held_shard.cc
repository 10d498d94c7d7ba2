#include "loader/exchange/held_shard.h"

#include <fmt/core.h>

#include <utility>

#include "data/fingerprint.h"

namespace millrace::loader {

Result<std::unique_ptr<HeldShard>> HeldShard::open(HeldShardOptions options) {
  std::unique_ptr<HeldShard> shard(new HeldShard(std::move(options)));
  comm::Comm& comm = *shard->options_.comm;
  RETURN_IF_ERROR(agree_all(comm, shard->open_storage()));  // else others would wait for this one
  ASSIGN_OR_RETURN(const Settled settled, settle(*shard->storage_, comm));
  shard->epoch_ = settled.epoch;
  shard->newest_ = settled.newest;
  ASSIGN_OR_RETURN(shard->messages_, comm.open_messages());
  shard->exchange_ = std::make_unique<Exchange>(comm, *shard->messages_, *shard->storage_);
  return shard;
}

Status HeldShard::open_storage() {
  const uint32_t rank = comm::index_of(options_.comm->rank());
  ASSIGN_OR_RETURN(
      storage_, LocalStorage::open({.directory = options_.directory / fmt::format("rank{}", rank),
                                    .order = options_.order,
                                    .rank = rank,
                                    .dataset = data::fingerprint(*options_.dataset)}));
  source_ = std::make_shared<const LocalSource>(storage_, options_.dataset);
  return {};
}

Status HeldShard::bring_to(data::Epoch epoch) {
  if (is_exchanging() && epoch_ != epoch) RETURN_IF_ERROR(finish_exchange());
  if (epoch_ == epoch) return {};
  StagingStats staging = stats().staging;
  const uint64_t before = staging.samples;
  const auto had = epoch_ ? epoch_ : newest_;
  const bool agreed = epoch_.has_value();
  epoch_.reset();
  const Status staged = stage_together(*storage_, *options_.dataset, epoch, *options_.comm,
                                       options_.staging, staging);
  const std::lock_guard lock(mutex_);
  staging_ = std::move(staging);
  RETURN_IF_ERROR(staged);
  epoch_ = epoch;
  newest_ = epoch;
  if (!had) return {};
  restaged_ = fmt::format(
      "{}: {}, and the job goes on with epoch {}: {} of {} samples were read again from the "
      "dataset",
      options_.directory.string(),
      agreed ? fmt::format("it held the samples of epoch {}", data::number_of(*had))
             : std::string("the ranks did not hold the samples of one epoch"),
      data::number_of(epoch), staging_.samples - before, storage_->slot_count());
  return {};
}

Status HeldShard::start_exchange() { return exchange_->start(); }

Status HeldShard::advance(uint64_t done, uint64_t count) {
  Status status = exchange_->advance(done, count);
  if (!status.ok() && is_exchanging()) RETURN_IF_ERROR(finish_exchange());
  return status;
}

Status HeldShard::finish_exchange() {
  RETURN_IF_ERROR(exchange_->finish(options_.staging.is_interrupted));
  epoch_ = storage_->epoch();
  newest_ = epoch_;
  return {};
}

HeldStats HeldShard::stats() const {
  const std::lock_guard lock(mutex_);
  return {.exchange = exchange_->stats(),
          .staging = staging_,
          .samples = storage_->epoch() ? storage_->slot_count() : 0,
          .sample_bytes = storage_->held_bytes(),
          .file_bytes = storage_->file_size_bytes(),
          .stored_count_max = storage_->stored_count_max(),
          .restaged = restaged_};
}

}  // namespace millrace::loader
