#include "store/job/node_report.h"

#include <fcntl.h>

#include <cstring>

#include "base/io/file.h"
#include "base/text/text.h"
#include "store/job/job.h"
#include "store/job/program_environment.h"
#include "wire/catalogue.h"

namespace millrace::store {

Result<NodeStatus> choose_node(const NodeChoice& choice) {
  if (choice.node) return read_node(*choice.node);
  const std::string of_job = variable_of(wire::kStoreVariable);
  if (!of_job.empty()) return read_node(of_job).within(wire::kStoreVariable);
  std::vector<NodeStatus> nodes = find_nodes(choice.local);
  if (nodes.size() == 1) return std::move(nodes.front());
  if (nodes.empty()) {
    return fail(Errc::kNotFound, "no store is running in {}; start one with `millrace store up`",
                printable(nodes_directory(choice.local).string()));
  }
  std::string known;
  for (const NodeStatus& node : nodes) {
    known += fmt::format("\n  --node {}  ({})", printable(node.path.string()),
                         printable(node.state.root));
  }
  return fail(Errc::kInvalidArgument, "{} stores are running; choose one:{}", nodes.size(), known);
}

Result<std::vector<NodeStatus>> list_nodes(const NodeChoice& choice) {
  if (!choice.node && variable_of(wire::kStoreVariable).empty()) return find_nodes(choice.local);
  ASSIGN_OR_RETURN(NodeStatus node, choose_node(choice));
  return std::vector<NodeStatus>{std::move(node)};
}

std::vector<PeerCounters> count_peers(Peers& peers) {
  std::vector<PeerCounters> counted;
  for (uint32_t i = 0; i < peers.size(); ++i) {
    const auto rank = static_cast<Rank>(i);
    PeerCounters peer{.name = peers.name_of(rank), .counters = {}};
    const auto answer = peers.ask(rank, wire::PeerKind::kStatus, {});
    wire::StoreState state;
    if (answer.ok() && answer->size() == sizeof(state)) {
      std::memcpy(&state, answer->data(), sizeof(state));
      peer.counters = state.counters;
    }
    counted.push_back(std::move(peer));
  }
  return counted;
}

Result<NodeReport> report_node(NodeStatus node) {
  NodeReport report;
  ASSIGN_OR_RETURN(const auto peers, find_peers(node.path));
  if (peers != nullptr) report.peers = count_peers(*peers);
  ASSIGN_OR_RETURN(report.settings, read_service_settings(node.path));
  ASSIGN_OR_RETURN(const File file, File::open(node.path / wire::kStoreCatalogueFile, O_RDONLY));
  wire::CatalogueHeader header{};
  RETURN_IF_ERROR(file.read_exactly_at(0, std::as_writable_bytes(std::span(&header, 1))));
  report.file_count = header.file_count;
  report.content_bytes = header.content_bytes;
  if (*node.state.globs != '\0') {
    ASSIGN_OR_RETURN(report.buffer, read_buffer(buffer_of(node.path)));
  }
  report.node = std::move(node);
  return report;
}

}  // namespace millrace::store
