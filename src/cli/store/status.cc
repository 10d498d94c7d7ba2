// What `store status` shows: the service of each node, its peers, and the files it saves.
#include <fmt/core.h>

#include <string>
#include <vector>

#include "base/text/json_writer.h"
#include "base/text/phrases.h"
#include "base/text/text.h"
#include "base/text/units.h"
#include "cli/store/node.h"
#include "store/job/node_report.h"

namespace millrace::cli {
namespace {

using store::NodeReport;
using store::NodeStatus;
using store::PeerCounters;

std::string peer_text(const PeerCounters& peer) {
  if (!peer.counters) return fmt::format("{}: does not answer", peer.name);
  const wire::StoreCounters& counters = *peer.counters;
  return fmt::format("{}: {} of {}, {} from peers, {} from the origin, {}", peer.name,
                     counted(counters.materialised, "file", "files"), format_bytes(counters.bytes),
                     format_exact(counters.peer_files),
                     format_exact(counters.fallbacks + counters.origin_files),
                     counted(counters.errors, "error", "errors"));
}

// Files come and go by the order that loaders gave.
std::string replaced_text(uint64_t count) {
  return count == 0 ? "" : fmt::format("; {} made room for others", format_exact(count));
}

std::string buffer_text(const store::BufferContents& buffer) {
  if (buffer.files.empty()) return "all is saved";
  return fmt::format("{} of {} not saved yet; {}", counted(buffer.files.size(), "file", "files"),
                     format_bytes(buffer.size_bytes), buffer.files.front().reason);
}

std::string status_text(const NodeReport& shown) {
  const wire::StoreState& state = shown.node.state;
  const wire::StoreCounters& counters = state.counters;
  std::string out = fmt::format(
      "{}  {}, process {}\n", printable(state.root),
      shown.node.is_running ? "running" : "DEAD: programs read from the origin", state.service_pid);
  const auto row = [&](std::string_view name, const std::string& value) {
    out += fmt::format("  {:<9} {}\n", name, value);
  };
  row("node", printable(shown.node.path.string()));
  row("pack",
      fmt::format("{}, {} of {}", printable(shown.settings.packs),
                  counted(shown.file_count, "file", "files"), format_bytes(shown.content_bytes)));
  row("origin", *state.origin != '\0' ? printable(state.origin) : "none");
  row("new files", *state.upper != '\0' ? printable(state.upper) : "none: the store is read-only");
  if (shown.buffer) row("buffer", buffer_text(*shown.buffer));
  row("local",
      fmt::format("{} of {}, capacity {}{}", counted(counters.materialised, "file", "files"),
                  format_bytes(counters.bytes), format_bytes(shown.settings.capacity_bytes),
                  replaced_text(state.replaced)));
  row("opens",
      fmt::format("{}, {} from the origin, {}", format_exact(counters.opens),
                  format_exact(counters.fallbacks), counted(counters.errors, "error", "errors")));
  for (const PeerCounters& peer : shown.peers) {
    row(&peer == shown.peers.data() ? "nodes" : "", peer_text(peer));
  }
  return out;
}

void write_status(JsonWriter& json, const NodeReport& shown) {
  const wire::StoreState& state = shown.node.state;
  json.begin_object();
  json.field("node", shown.node.path.string());
  json.field("running", shown.node.is_running);
  json.field("pid", state.service_pid);
  json.field("root", std::string_view(state.root));
  json.field("origin", std::string_view(state.origin));
  json.field("pack", shown.settings.packs);
  json.field("files", shown.file_count);
  json.field("bytes", shown.content_bytes);
  json.field("capacity_bytes", shown.settings.capacity_bytes);
  json.field("opens", state.counters.opens);
  json.field("materialised", state.counters.materialised);
  json.field("materialised_bytes", state.counters.bytes);
  json.field("replaced", state.replaced);
  json.field("fallbacks", state.counters.fallbacks);
  json.field("errors", state.counters.errors);
  json.field("from_peers", state.counters.peer_files);
  json.field("from_peers_bytes", state.counters.peer_bytes);
  json.field("from_origin", state.counters.origin_files);
  json.key("nodes");
  json.begin_list();
  for (const PeerCounters& peer : shown.peers) {
    json.begin_object(JsonLayout::kOneLine);
    json.field("name", peer.name);
    json.field("answers", peer.counters.has_value());
    const wire::StoreCounters counters = peer.counters.value_or(wire::StoreCounters());
    json.field("materialised", counters.materialised);
    json.field("from_peers", counters.peer_files);
    json.field("from_origin", counters.fallbacks + counters.origin_files);
    json.field("errors", counters.errors);
    json.end_object();
  }
  json.end_list();
  json.field("save", shown.settings.save);
  if (shown.buffer) {
    json.key("buffered");
    json.begin_list();
    for (const store::KeptFile& file : shown.buffer->files) {
      json.begin_object(JsonLayout::kOneLine);
      json.field("path", file.path);
      json.field("data", file.data.string());
      json.field("bytes", file.size_bytes);
      json.field("reason", file.reason);
      json.end_object();
    }
    json.end_list();
  }
  json.end_object();
}

}  // namespace

Result<int> run_status(const Arguments& arguments, Output& output) {
  ASSIGN_OR_RETURN(std::vector<NodeStatus> nodes, listed_nodes(arguments));
  JsonWriter json;
  json.begin_object();
  json.key("stores");
  json.begin_list();
  std::string text;
  for (NodeStatus& node : nodes) {
    ASSIGN_OR_RETURN(const NodeReport shown, store::report_node(std::move(node)));
    write_status(json, shown);
    text += status_text(shown);
  }
  json.end_list();
  json.end_object();
  if (nodes.empty()) text = "no store is running\n";
  output.print(arguments.has("json") ? std::move(json).finish() : text);
  return kExitSuccess;
}

}  // namespace millrace::cli
