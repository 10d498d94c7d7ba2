// settle: how the ranks' storages come to one epoch, after a crash and at the end of an exchange.
//
// A rank commits an epoch only when all have prepared it. After a crash, therefore, either some
// rank has committed it, and all others have it prepared at least; or none has, and those that
// prepared it can still go back. Which one it is, all ranks see in what all ranks have.
#pragma once

#include <optional>
#include <span>

#include "base/result.h"
#include "comm/comm.h"
#include "data/sample.h"
#include "data/source.h"
#include "loader/exchange/local_storage.h"

namespace millrace::loader {

// What a rank has on its disk.
struct StorageEpochs {
  std::optional<data::Epoch> committed;
  std::optional<data::Epoch> prepared;
};

// The epoch that all can come to; nothing: the samples have to be staged anew. Fails, and names the
// rank, where a storage does not belong to the others.
Result<std::optional<data::Epoch>> common_epoch(std::span<const StorageEpochs> ranks);

// Brings this rank's storage to the epoch of all. Collective; the first call on a storage.
Status settle(LocalStorage& storage, comm::Comm& comm);

// Commits what this rank has prepared once all have. `mine` is how the preparation went.
// Collective.
Status commit_together(LocalStorage& storage, comm::Comm& comm, const Status& mine);

// Copies the samples of this rank's shard into an empty storage, as of epoch 0. Collective.
Status stage_shard(LocalStorage& storage, const data::SampleSource& source, comm::Comm& comm);

}  // namespace millrace::loader
