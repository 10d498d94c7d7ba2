#include "loader/exchange/held_shard.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/io/mounts.h"
#include "data/fingerprint.h"
#include "loader/same_dataset.h"

namespace millrace::loader::exchange {
namespace {

// Whether only this host sees the directory, so that locks tell who uses its contents.
bool is_on_own_disk(const std::filesystem::path& directory) {
  constexpr std::string_view kOwn[] = {"ext2", "ext3", "ext4",  "xfs",   "btrfs",  "zfs",
                                       "f2fs", "jfs",  "tmpfs", "ramfs", "overlay"};
  std::error_code failed;
  const auto mount = mount_of(std::filesystem::canonical(directory, failed));
  return !failed && mount && std::ranges::find(kOwn, mount->file_system) != std::end(kOwn);
}

}  // namespace

Result<std::unique_ptr<HeldShard>> HeldShard::open(HeldShardOptions options) {
  std::unique_ptr<HeldShard> shard(new HeldShard(std::move(options)));
  comm::Comm& comm = *shard->options_.comm;
  RETURN_IF_ERROR(agree_all(comm, shard->open_storage()));  // others must not wait for this rank
  RETURN_IF_ERROR(check_same_dataset(*shard->options_.dataset, comm));
  shard->remove_left_behind();
  ASSIGN_OR_RETURN(const Settled settled, settle(*shard->storage_, comm));
  shard->epoch_ = settled.epoch;
  shard->newest_ = settled.newest;
  ASSIGN_OR_RETURN(shard->messages_, comm.open_messages());
  shard->exchange_ = std::make_unique<Exchange>(comm, *shard->messages_, *shard->storage_);
  return shard;
}

Status HeldShard::open_storage() {
  const uint32_t rank = comm::index_of(options_.comm->rank());
  ASSIGN_OR_RETURN(storage_, ShardStorage::open({.directory = directory_of(rank),
                                                 .order = options_.order,
                                                 .rank = rank,
                                                 .dataset = data::fingerprint(*options_.dataset)}));
  source_ = std::make_shared<const ShardSource>(storage_, options_.dataset);
  return {};
}

std::filesystem::path HeldShard::directory_of(uint32_t rank) const {
  return options_.directory / fmt::format("rank{}", rank);
}

// A rank that ran on this host in an earlier run, and now runs on another, has left its samples
// here. Nobody reads them again, and they take space. By now all ranks of the job have locked their
// own storages, so an unlocked one is unused. On a shared file system a rank finds its storage from
// any host, and none is left behind.
void HeldShard::remove_left_behind() {
  if (!is_on_own_disk(options_.directory)) return;
  StorageOptions other = storage_->options();
  for (other.rank = 0; other.rank < other.order.shard_count; ++other.rank) {
    if (other.rank == storage_->options().rank) continue;
    other.directory = directory_of(other.rank);
    if (ShardStorage::remove_left_behind(other)) ++storages_removed_;
  }
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
  const MutexLock lock(mutex_);
  staging_ = std::move(staging);
  RETURN_IF_ERROR(staged);
  epoch_ = epoch;
  newest_ = epoch;
  if (!had) return {};
  restaged_ = fmt::format(
      "{}: {}, and the job continues with epoch {}: {} of {} samples were read again from the "
      "dataset",
      options_.directory.string(),
      agreed ? fmt::format("it held the samples of epoch {}", data::number_of(*had))
             : std::string("the ranks did not all hold the samples of the same epoch"),
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
  const MutexLock lock(mutex_);
  return {.exchange = exchange_->stats(),
          .staging = staging_,
          .samples = storage_->epoch() ? storage_->slot_count() : 0,
          .sample_bytes = storage_->held_bytes(),
          .file_bytes = storage_->file_size_bytes(),
          .stored_count_max = storage_->stored_count_max(),
          .restaged = restaged_,
          .storages_removed = storages_removed_};
}

}  // namespace millrace::loader::exchange
