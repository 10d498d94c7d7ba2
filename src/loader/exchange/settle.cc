#include "loader/exchange/settle.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"

namespace millrace::loader::exchange {
namespace {

using MaybeEpoch = std::optional<data::Epoch>;

// Epochs as numbers that count from 1; 0: none.
uint64_t number_or_zero(const MaybeEpoch& epoch) { return epoch ? data::number_of(*epoch) + 1 : 0; }
MaybeEpoch epoch_of(uint64_t number) {
  if (number == 0) return {};
  return data::Epoch{number - 1};
}

Result<std::vector<StorageEpochs>> epochs_of_all(const ShardStorage& storage, comm::Comm& comm) {
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

}  // namespace

MaybeEpoch common_epoch(std::span<const StorageEpochs> ranks) {
  if (ranks.empty()) return {};
  const auto all_have = [&](const MaybeEpoch& epoch) {
    return std::ranges::all_of(ranks, [&](const StorageEpochs& has) {
      return has.committed == epoch || (has.prepared && has.prepared == epoch);
    });
  };
  // If all have it, prepared or committed, they go forward: some rank may have committed it
  // already.
  if (ranks.front().prepared && all_have(ranks.front().prepared)) return ranks.front().prepared;
  if (all_have(ranks.front().committed)) return ranks.front().committed;
  return {};
}

Result<Settled> settle(ShardStorage& storage, comm::Comm& comm) {
  if (comm.size() != storage.options().order.shard_count) {
    return fail(Errc::kInvalidArgument,
                "the samples are held by {} ranks, but this job has {}; start it with {}",
                storage.options().order.shard_count, comm.size(),
                storage.options().order.shard_count);
  }
  ASSIGN_OR_RETURN(const auto epochs, epochs_of_all(storage, comm));
  Settled settled{.epoch = common_epoch(epochs), .newest = {}};
  for (const StorageEpochs& has : epochs) settled.newest = std::max(settled.newest, has.committed);
  const bool goes_forward = storage.prepared() && storage.prepared() == settled.epoch;
  // Until all ranks have settled, none may overwrite what another needs for its recovery.
  RETURN_IF_ERROR(agree_all(comm, goes_forward ? storage.commit() : storage.discard()));
  return settled;
}

Status agree_all(comm::Comm& comm, const Status& mine) {
  return comm.size() == 1 ? mine : comm.agree(mine);
}

Status commit_together(ShardStorage& storage, comm::Comm& comm, const Status& mine) {
  RETURN_IF_ERROR(agree_all(comm, mine));
  return storage.commit();
}

}  // namespace millrace::loader::exchange
