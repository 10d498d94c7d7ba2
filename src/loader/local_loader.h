// local_loader: a loader whose rank holds its samples on its own storage, and exchanges some with
// other ranks while an epoch is trained.
//
// A loader over what the rank holds, and the exchange beside it: each batch that is taken lets the
// exchange go on, and the end of the epoch commits it. Batches, their order and the state are those
// of the same loader without a storage.
#pragma once

#include <memory>

#include "base/result.h"
#include "loader/loader.h"

namespace millrace::loader {

// Collective. REQUIRES: options that Loader::open() found good, with a local directory
Result<std::unique_ptr<Loader>> open_local_loader(LoaderOptions options);

}  // namespace millrace::loader
