// PeerTable: where the store's services of a job can be reached, and what proves that they belong
// to it. The ranks of one MPI job exchange it; after that, the services need no MPI.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash/siphash.h"
#include "base/result.h"
#include "comm/comm.h"
#include "comm/lifeline/socket.h"

namespace millrace::store {

using comm::Rank;

// Where a service can be reached.
struct PeerPlace {
  std::string host;
  uint16_t port = 0;
  std::vector<std::string> addresses;  // numeric; those that do not lead there do no harm
};

// What all services of a job know. The key is secret.
struct PeerTable {
  std::string job;  // the name of their folders: 16 hex digits, the same on all nodes
  SipHashKey key = {};
  std::vector<PeerPlace> places;  // by rank
};

// One line for each place, without its end.
std::string place_text(const PeerPlace& place);
std::string table_text(const PeerTable& table);
Result<PeerTable> read_table(std::string_view text);

// Listens on all interfaces, or on MILLRACE_INTERFACE.
Result<comm::Listener> listen_for_peers();
PeerPlace place_of(const comm::Listener& listener);

// Collective: the places of all ranks, with a new key and, if `job` is empty, a new name. Fails if
// two ranks are on one host.
Result<PeerTable> exchange_places(comm::Comm& comm, const std::string& own_place,
                                  const std::string& job);

// 16 random hex digits.
std::string random_job_name();

}  // namespace millrace::store
