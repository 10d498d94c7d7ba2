// settle: how the ranks' storages come to one epoch, after a crash and at the end of an exchange.
//
// A rank commits an epoch only when all have prepared it. After a crash, therefore, either some
// rank has committed it, and all others have it prepared at least; or none has, and those that
// prepared it can still go back. Which one it is, all ranks see in what all ranks have: the epoch
// that every one of them has, committed or prepared.
//
// There is none where a disk was lost, or a staging was under way. Nothing is lost by that, because
// the dataset has all samples: each rank then stages what it lacks (staging.h).
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "comm/comm.h"
#include "data/sample.h"
#include "loader/exchange/local_storage.h"

namespace millrace::loader {

// What a rank has on its disk.
struct StorageEpochs {
  std::optional<data::Epoch> committed;
  std::optional<data::Epoch> prepared;
};

// The epoch that all can come to; nothing: the samples have to be staged.
std::optional<data::Epoch> common_epoch(std::span<const StorageEpochs> ranks);

// What settle() found, the same on all ranks.
struct Settled {
  std::optional<data::Epoch> epoch;   // of all storages now; nothing: they have to be staged
  std::optional<data::Epoch> newest;  // that any of them held before; nothing: all were empty
};

// Brings this rank's storage to the epoch of all. Collective; the first call on a storage.
Result<Settled> settle(LocalStorage& storage, comm::Comm& comm);

// Success if all ranks bring it. A Comm's first failure is its last, which is right where others
// have gone on; one rank alone that failed, or was interrupted, may try again. Collective.
Status agree_all(comm::Comm& comm, const Status& mine);

// Commits what this rank has prepared once all have. `mine` is how the preparation went.
// Collective.
Status commit_together(LocalStorage& storage, comm::Comm& comm, const Status& mine);

}  // namespace millrace::loader
