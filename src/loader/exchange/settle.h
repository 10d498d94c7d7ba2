// settle: brings the storages of all ranks to one epoch, after a crash and at the end of an
// exchange.
//
// A rank commits an epoch only when all ranks have prepared it. So after a crash, either some rank
// has committed it and all others have at least prepared it; or none has, and those that prepared
// it can still go back. The ranks decide this from the epochs of all: they settle on the epoch that
// every rank has, committed or prepared.
//
// There is no such epoch if a disk was lost or a staging was in progress. No data is lost then,
// because the dataset has all samples: each rank stages what it lacks (staging.h).
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "comm/comm.h"
#include "data/sample.h"
#include "loader/exchange/shard_storage.h"

namespace millrace::loader::exchange {

// The epochs on a rank's disk.
struct StorageEpochs {
  std::optional<data::Epoch> committed;
  std::optional<data::Epoch> prepared;
};

// The epoch that all ranks can reach; nullopt: samples must be staged.
std::optional<data::Epoch> common_epoch(std::span<const StorageEpochs> ranks);

// The result of settle(), the same on all ranks.
struct Settled {
  std::optional<data::Epoch> epoch;   // of all storages now; nullopt: samples must be staged
  std::optional<data::Epoch> newest;  // that any of them held before; nullopt: all were empty
};

// Brings this rank's storage to the common epoch. Collective; must be the first call on a storage.
Result<Settled> settle(ShardStorage& storage, comm::Comm& comm);

// Succeeds if `mine` is a success on all ranks. Collective. A Comm does not recover from a failure,
// which is right if other ranks have moved on. A job of one rank does not use the Comm here, so
// that it may try again after a failure or an interruption.
Status agree_all(comm::Comm& comm, const Status& mine);

// Commits what this rank has prepared once all ranks have. `mine` is the result of the preparation.
// Collective.
Status commit_together(ShardStorage& storage, comm::Comm& comm, const Status& mine);

}  // namespace millrace::loader::exchange
