// shard_loader: a loader for a rank that holds its shard on its own storage and exchanges samples
// with other ranks while an epoch is trained.
//
// It combines a loader over the shard with the exchange. Each batch taken advances the exchange,
// and the end of the epoch commits it. Batches, their order and the state equal those of the same
// loader without shard storage.
#pragma once

#include <memory>

#include "base/result.h"
#include "loader/loader.h"

namespace millrace::loader {

// Collective. REQUIRES: options that Loader::open() has checked, with shard storage
Result<std::unique_ptr<Loader>> open_shard_loader(LoaderOptions options);

}  // namespace millrace::loader
