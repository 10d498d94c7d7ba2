// Job peers: what a process that is none of a job's services asks all of them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/peers/peers.h"
#include "wire/store_state.h"

namespace millrace::store {

// The services of the job that has this folder; null if there are none. A host that has none of
// them, such as a login node, has no folder: there, `table` says where they are.
Result<std::unique_ptr<Peers>> find_peers(const std::filesystem::path& node,
                                          const std::string& table = {});

// Waits until the buffers of all these nodes are empty. Returns whether they are, and names the
// nodes that are not.
bool flush_peers(const std::filesystem::path& node, const std::string& table,
                 const std::function<void(const std::string& line)>& say);

// A service of the job.
struct PeerCounters {
  std::string name;
  std::optional<wire::StoreCounters> counters;  // none: it does not answer
};
std::vector<PeerCounters> count_peers(Peers& peers);

}  // namespace millrace::store
