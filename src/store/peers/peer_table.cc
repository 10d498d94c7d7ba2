#include "store/peers/peer_table.h"

#include <sys/random.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "base/text/text.h"
#include "comm/lifeline/message.h"

namespace millrace::store {
namespace {

constexpr size_t kJobDigits = 16;

std::string hex_text(const SipHashKey& key) {
  std::string out;
  for (const uint8_t byte : key) out += fmt::format("{:02x}", byte);
  return out;
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<SipHashKey> read_key(const std::string& text) {
  SipHashKey key = {};
  if (!is_hex(text, 2 * key.size())) return fail(Errc::kCorrupt, "the key of the job is malformed");
  for (size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<uint8_t>(std::stoul(text.substr(2 * i, 2), nullptr, 16));
  }
  return key;
}

Result<PeerPlace> read_place(const std::string& line) {
  std::istringstream words(line);
  PeerPlace place;
  if (!(words >> place.host >> place.port) || place.port == 0) {
    return fail(Errc::kCorrupt, "'{}' is not the place of a service", printable(line));
  }
  for (std::string address; words >> address;) place.addresses.push_back(address);
  return place;
}

Status check_hosts(const PeerTable& table) {
  std::map<std::string, size_t> rank_of;
  for (size_t i = 0; i < table.places.size(); ++i) {
    const auto [found, is_new] = rank_of.emplace(table.places[i].host, i);
    if (is_new) continue;
    return fail(Errc::kInvalidArgument,
                "ranks {} and {} are both on {}, but a node has one service; start one a node: "
                "mpirun --map-by ppr:1:node, or srun --ntasks-per-node=1",
                found->second, i, printable(table.places[i].host));
  }
  return {};
}

}  // namespace

std::string random_job_name() {
  uint64_t number = 0;
  while (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  return fmt::format("{:016x}", number);
}

std::string place_text(const PeerPlace& place) {
  std::string out = fmt::format("{} {}", place.host, place.port);
  for (const std::string& address : place.addresses) out += " " + address;
  return out;
}

std::string table_text(const PeerTable& table) {
  std::string out = fmt::format("{} {}\n", table.job, hex_text(table.key));
  for (const PeerPlace& place : table.places) out += place_text(place) + "\n";
  return out;
}

Result<PeerTable> read_table(std::string_view text) {
  std::istringstream lines{std::string(text)};
  PeerTable table;
  std::string key;
  if (!(lines >> table.job >> key) || !is_hex(table.job, kJobDigits)) {
    return fail(Errc::kCorrupt, "the table of the services has no job");
  }
  ASSIGN_OR_RETURN(table.key, read_key(key));
  lines.ignore();
  for (std::string line; std::getline(lines, line);) {
    ASSIGN_OR_RETURN(PeerPlace place, read_place(line));
    table.places.push_back(std::move(place));
  }
  if (table.places.empty()) return fail(Errc::kCorrupt, "the table of the services is empty");
  return table;
}

Result<comm::Listener> listen_for_peers() {
  const char* const interface = std::getenv("MILLRACE_INTERFACE");
  return comm::listen_for_ranks(
      {.only_this_host = false, .interface = interface != nullptr ? interface : ""});
}

PeerPlace place_of(const comm::Listener& listener) {
  return {.host = comm::own_name(comm::kFirstRank).host,
          .port = listener.port,
          .addresses = listener.addresses};
}

Result<PeerTable> exchange_places(comm::Comm& comm, const std::string& own_place,
                                  const std::string& job) {
  PeerTable table;
  ASSIGN_OR_RETURN(table.key, comm::make_key());
  table.job = job.empty() ? random_job_name() : job;
  std::string head = fmt::format("{} {}\n", table.job, hex_text(table.key));
  RETURN_IF_ERROR(comm.broadcast(head, comm::kFirstRank));
  ASSIGN_OR_RETURN(const std::vector<std::string> places, comm.gather_to_all(bytes_of(own_place)));
  for (const std::string& place : places) head += place + "\n";
  ASSIGN_OR_RETURN(table, read_table(head));
  RETURN_IF_ERROR(check_hosts(table));
  return table;
}

}  // namespace millrace::store
