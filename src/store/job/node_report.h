// NodeReport: what `store status` says about a store, and which stores there are.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/buffer/contents.h"
#include "store/peers/peers.h"
#include "store/service/node_folder.h"
#include "store/service/service.h"

namespace millrace::store {

// Which store a user means: the folder that is named here or by MILLRACE_STORE, or the only one
// below `local`.
struct NodeChoice {
  std::optional<std::string> node;
  std::filesystem::path local;
};
Result<NodeStatus> choose_node(const NodeChoice& choice);

// The one that is named, or all that run.
Result<std::vector<NodeStatus>> list_nodes(const NodeChoice& choice);

// A service of a job.
struct PeerCounters {
  std::string name;
  std::optional<wire::StoreCounters> counters;  // none: it does not answer
};
std::vector<PeerCounters> count_peers(Peers& peers);

struct NodeReport {
  NodeStatus node;
  std::vector<PeerCounters> peers;
  ServiceSettings settings;
  std::optional<BufferContents> buffer;
  uint64_t file_count = 0;  // of the whole pack
  uint64_t content_bytes = 0;
};
Result<NodeReport> report_node(NodeStatus node);

}  // namespace millrace::store
