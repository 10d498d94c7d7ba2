#include "store/job/job_peers.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/io/file.h"
#include "base/text/text.h"
#include "comm/lifeline/message.h"
#include "store/service/node_folder.h"

namespace millrace::store {
namespace {

constexpr std::chrono::milliseconds kAskPatience{2000};
constexpr std::chrono::milliseconds kFlushInterval{50};
constexpr std::chrono::seconds kFlushPatience{5};  // with something that fails

// How the flush of another node ended; nothing if it does not answer.
std::optional<wire::FlushProgress> flush_peer(Peers& peers, Rank rank) {
  const auto ticket = peers.ask(rank, wire::PeerKind::kFlush, {});
  auto failing_since = std::chrono::steady_clock::now();
  for (auto answer = ticket; answer.ok();) {
    answer = peers.ask(rank, wire::PeerKind::kFlush, bytes_of(*ticket));
    if (!answer.ok() || answer->size() != 1) break;
    const auto progress = static_cast<wire::FlushProgress>((*answer)[0]);
    const auto now = std::chrono::steady_clock::now();
    if (progress == wire::FlushProgress::kDurable) return progress;
    if (progress == wire::FlushProgress::kRunning) failing_since = now;
    if (now - failing_since > kFlushPatience) return progress;
    std::this_thread::sleep_for(kFlushInterval);
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Peers>> find_peers(const std::filesystem::path& node,
                                          const std::string& table) {
  const auto text = read_file(node / wire::kStorePeersFile);
  if (!text.ok() && table.empty()) return std::unique_ptr<Peers>();
  PeersOptions options;
  ASSIGN_OR_RETURN(options.table,
                   read_table(text.ok() ? *text : table).within(printable(node.string())));
  options.deadline = std::min(peer_deadline(), kAskPatience);
  const std::string host = comm::own_name(comm::kFirstRank).host;
  const auto& places = options.table.places;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i].host == host) options.own = static_cast<Rank>(i);
  }
  return std::make_unique<Peers>(std::move(options));
}

bool flush_peers(const std::filesystem::path& node, const std::string& table,
                 const std::function<void(const std::string& line)>& say) {
  const auto peers = find_peers(node, table);
  if (!peers.ok() || *peers == nullptr) return true;
  bool is_saved = true;
  for (uint32_t i = 0; i < (*peers)->size(); ++i) {
    const auto rank = static_cast<Rank>(i);
    const auto progress = flush_peer(**peers, rank);
    if (progress == wire::FlushProgress::kDurable) continue;
    is_saved = false;
    say(fmt::format("{}: {}; see there: millrace store flush --left {}", (*peers)->name_of(rank),
                    progress ? "buffered files cannot be saved now"
                             : "does not answer; buffered files of it may not be saved",
                    printable(buffer_of(node).string())));
  }
  return is_saved;
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

}  // namespace millrace::store
