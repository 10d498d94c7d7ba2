#include "loader/exchange/settle.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "data/buffer.h"
#include "loader/order/shards.h"

namespace millrace::loader {
namespace {

using MaybeEpoch = std::optional<data::Epoch>;

// An epoch as a number that counts from 1; 0: none.
uint64_t number_or_zero(const MaybeEpoch& epoch) { return epoch ? data::number_of(*epoch) + 1 : 0; }
MaybeEpoch epoch_of(uint64_t number) {
  if (number == 0) return {};
  return data::Epoch{number - 1};
}

std::string described(const StorageEpochs& has) {
  const auto named = [](const MaybeEpoch& epoch) {
    return epoch ? fmt::format("epoch {}", data::number_of(*epoch)) : std::string("no samples");
  };
  return has.prepared
             ? fmt::format("{} with {} prepared", named(has.committed), named(has.prepared))
             : named(has.committed);
}

Result<std::vector<StorageEpochs>> epochs_of_all(const LocalStorage& storage, comm::Comm& comm) {
  const uint64_t mine[] = {number_or_zero(storage.epoch()), number_or_zero(storage.prepared())};
  ASSIGN_OR_RETURN(const auto all, comm.gather_to_all(std::as_bytes(std::span(mine))));
  std::vector<StorageEpochs> epochs;
  for (const std::string& bytes : all) {
    ByteReader reader(bytes_of(bytes));
    ASSIGN_OR_RETURN(const auto committed, reader.read<uint64_t>());
    ASSIGN_OR_RETURN(const auto prepared, reader.read<uint64_t>());
    epochs.push_back({.committed = epoch_of(committed), .prepared = epoch_of(prepared)});
  }
  return epochs;
}

Status stage_samples(LocalStorage& storage, const data::SampleSource& source) {
  const StorageOptions& options = storage.options();
  if (source.sample_count() != options.order.sample_count) {
    return fail(Errc::kInvalidArgument, "the source has {} samples, and the order {}",
                source.sample_count(), options.order.sample_count);
  }
  const Shards shards(options.order.sample_count, options.order.shard_count);
  data::Buffer room;
  for (uint64_t slot = 0; slot < storage.slot_count(); ++slot) {
    const data::SampleId sample = shards.at_home({.shard = options.rank, .index = slot});
    ASSIGN_OR_RETURN(const ByteView bytes, source.read(sample, room));
    RETURN_IF_ERROR(storage.stage(slot, sample, bytes));
  }
  return storage.prepare(data::Epoch{0});
}

}  // namespace

Result<MaybeEpoch> common_epoch(std::span<const StorageEpochs> ranks) {
  uint64_t newest = 0;
  bool all_prepared = !ranks.empty();
  for (const StorageEpochs& has : ranks) newest = std::max(newest, number_or_zero(has.committed));
  for (const StorageEpochs& has : ranks) {
    all_prepared = all_prepared && number_or_zero(has.prepared) == newest + 1;
  }
  if (all_prepared) return epoch_of(newest + 1);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool can_come = number_or_zero(ranks[rank].committed) == newest ||
                          number_or_zero(ranks[rank].prepared) == newest;
    if (can_come) continue;
    return fail(Errc::kCorrupt,
                "the storage of rank {} has {}, where others have epoch {}: it is not of the same "
                "run; remove the storages of all ranks and stage the samples again",
                rank, described(ranks[rank]), newest - 1);
  }
  return epoch_of(newest);
}

Status settle(LocalStorage& storage, comm::Comm& comm) {
  if (comm.size() != storage.options().order.shard_count) {
    return fail(Errc::kInvalidArgument,
                "the samples are held by {} ranks, and this job has {}; start it with {}",
                storage.options().order.shard_count, comm.size(),
                storage.options().order.shard_count);
  }
  ASSIGN_OR_RETURN(const auto epochs, epochs_of_all(storage, comm));
  ASSIGN_OR_RETURN(const MaybeEpoch common, common_epoch(epochs));
  const bool goes_forward = storage.prepared() && storage.prepared() == common;
  // Until every rank is there, none may write over what another one's recovery counts on.
  return comm.agree(goes_forward ? storage.commit() : storage.discard());
}

Status commit_together(LocalStorage& storage, comm::Comm& comm, const Status& mine) {
  RETURN_IF_ERROR(comm.agree(mine));
  return storage.commit();
}

Status stage_shard(LocalStorage& storage, const data::SampleSource& source, comm::Comm& comm) {
  return commit_together(storage, comm, stage_samples(storage, source));
}

}  // namespace millrace::loader
