// Peers: the store's services on the other nodes of a job, and how they ask each other.
//
//   peers.serve(kind, [](Rank from, ByteView question) -> Result<PeerAnswer> { ... });
//   RETURN_IF_ERROR(peers.start());
//   ASSIGN_OR_RETURN(const std::string answer, peers.ask(Rank{2}, kind, question));
//
// A TCP connection for each question in flight, kept for the next one. The thread that asks waits
// for the answer itself, so answers come soon even if all cores compute (docs/design/store.md
// compares it with MPI). Both ends prove that they know the job's key.
//
// A peer that refuses, closes the connection, or is silent for the deadline is lost: asking it
// fails at once, until a pause has passed; then one caller tries again. The log says so once.
//
// Answers come from threads of their own. A handler must not ask peers itself: services could then
// wait in a circle. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/base.h"
#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "store/peers/peer_channel.h"
#include "store/peers/peer_table.h"
#include "store/service/ready_sockets.h"
#include "wire/store_peer.h"

namespace millrace::store {

struct PeerAnswer {
  std::string bytes;  // signed
  ByteView view;  // sent after `bytes`, not signed: the asker has its checksum. Lives as long as
                  // `keeps`, or longer than the service
  std::shared_ptr<const void> keeps = nullptr;
};
using PeerResponder = std::function<Result<PeerAnswer>(Rank from, ByteView question)>;

// MILLRACE_STORE_PEER_DEADLINE_MS, or 5 s.
std::chrono::milliseconds peer_deadline();

struct PeersOptions {
  PeerTable table;
  Rank own = comm::kFirstRank;
  comm::Listener listener;
  size_t thread_count = 0;  // 0: twice the CPUs, at least 16: they also wait for slow receivers
  std::chrono::milliseconds deadline = peer_deadline();
  std::chrono::milliseconds pause{30'000};           // before a lost peer is tried again
  std::function<void(const std::string& line)> log;  // called by any thread; may be empty
};

class Peers {
 public:
  explicit Peers(PeersOptions options);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  Rank own() const { return options_.own; }
  uint32_t size() const { return static_cast<uint32_t>(options_.table.places.size()); }
  const PeerTable& table() const { return options_.table; }
  std::string name_of(Rank rank) const;  // "node2 (rank 1)"
  bool is_lost(Rank rank) const;

  // Whether nobody listens at its port any more. False if its host is silent: then a cable may be
  // cut.
  bool has_ended(Rank rank) const;

  // Answers questions of this kind; an error becomes the answer. Call it before start().
  void serve(wire::PeerKind kind, PeerResponder handler);
  Status start();

  // Asks one question and waits for the answer. Errors name the peer; those of its handler keep
  // their code. Questions and answers have at most wire::kPeerMessageBytes.
  Result<std::string> ask(Rank whom, wire::PeerKind kind, ByteView question);

  // Asks many questions of one kind, several in flight, and passes the answers on in their order.
  // Ends at the first error, which may be that of `take`.
  struct Questions {
    uint64_t count = 1;
    std::function<ByteView(uint64_t index)> question;  // valid until it is called again
    std::function<Status(uint64_t index, ByteView answer)> take;
  };
  Status ask_all(Rank whom, wire::PeerKind kind, const Questions& questions);

  // Asks all other ranks at the same time, and waits for them. Returns those that failed.
  std::vector<std::pair<Rank, Error>> tell_all(wire::PeerKind kind, ByteView question);

 private:
  struct Peer;
  struct Asker;
  using ChannelPointer = std::unique_ptr<PeerChannel>;

  PeerChannel::Options channel_options() const;
  Status check_reachable(Rank whom) const;
  Result<ChannelPointer> channel_to(Rank whom, bool& is_fresh);
  Result<ChannelPointer> connect(Rank whom);
  Result<ChannelPointer> connect_once(Rank whom, bool& was_dropped);
  void keep(Rank whom, ChannelPointer channel);
  void note_lost(Rank whom, const Error& error);
  void note_answer(Rank whom);
  void work();
  void accept_askers();
  bool dismiss_strangers() REQUIRES(askers_mutex_);
  void hear(Asker& asker, PeerMessage& message);
  bool answer(Asker& asker, PeerMessage& message);
  void drop(Asker& asker);

  PeersOptions options_;
  const size_t strangers_max_;  // connections that have not proved that they belong to the job
  std::vector<std::unique_ptr<Peer>> peers_;
  std::map<wire::PeerKind, PeerResponder> handlers_;
  ReadySockets sockets_;
  std::vector<std::thread> threads_;

  Mutex askers_mutex_;
  std::unordered_map<const Asker*, std::unique_ptr<Asker>> askers_ GUARDED_BY(askers_mutex_);
};

}  // namespace millrace::store
