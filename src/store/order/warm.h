// warm: asks the service of a node for files before programs need them, in the order of the
// catalogue, until all are there or the capacity is used up.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/client/service_client.h"
#include "store/pack/catalogue.h"

namespace millrace::store {

struct WarmOptions {
  std::vector<std::string> globs;                 // `*` also matches /; empty: all files
  std::function<void(uint64_t bytes)> on_warmed;  // may be empty
  wire::StoreRequestKind kind = wire::StoreRequestKind::kMaterialise;
};

struct WarmReport {
  uint64_t file_count = 0;
  uint64_t size_bytes = 0;
  uint64_t failed_count = 0;  // the log of the service says why
  bool is_full = false;       // the capacity is used up
};

// Fails if the service ends or stays silent.
Result<WarmReport> warm_node(const Catalogue& catalogue, const ServiceClient& client,
                             const WarmOptions& options);

}  // namespace millrace::store
