// PeerChannel: one TCP connection between two of the store's services. docs/formats/store-peer.md.
//
// Both ends have proved that they know the job's key; every message is signed with a key of this
// connection, its direction and its position. One end asks, the other answers. Calls wait, but not
// longer than the deadline without a byte. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/base.h"
#include "base/hash/siphash.h"
#include "base/result.h"
#include "comm/own_file.h"
#include "store/peers/peer_table.h"
#include "wire/store_peer.h"

namespace millrace::store {

// Reuses its memory. The bytes are valid until the next message.
struct PeerMessage {
  wire::PeerHeader header = {};
  std::vector<std::byte> memory;

  ByteView bytes() const { return ByteView(memory).first(header.size_bytes); }
};

class PeerChannel {
 public:
  struct Options {
    SipHashKey job_key = {};
    Rank own = comm::kFirstRank;
    uint32_t size = 1;
    std::chrono::milliseconds deadline{5000};
  };

  // The end that asks: `socket` is connected to `whom`. Waits for the greeting.
  static Result<std::unique_ptr<PeerChannel>> ask_through(comm::OwnFile socket, Rank whom,
                                                          const Options& options);

  // The end that answers: sends the challenge. Call greet() whenever something arrives, until it
  // returns true; it never waits, because the other end may be a stranger.
  static Result<std::unique_ptr<PeerChannel>> answer_through(comm::OwnFile socket,
                                                             const Options& options);
  Result<bool> greet();

  int fd() const { return socket_.fd(); }
  Rank other() const { return other_; }

  struct Content {
    ByteView signed_bytes;
    ByteView other_bytes;  // the receiver has their checksum
  };
  Status send(wire::PeerKind kind, int error, const Content& content);
  Status receive(PeerMessage& message);

 private:
  PeerChannel(comm::OwnFile socket, const Options& options, bool is_asker)
      : socket_(std::move(socket)), options_(options), is_asker_(is_asker) {}

  Status use_deadline() const;
  Status send_greeting(wire::PeerGreeting greeting);
  Status receive_exactly(MutableByteView out);
  void derive_key(const wire::PeerGreeting& challenge, const wire::PeerGreeting& hello);
  SipHashTag tag_of(wire::PeerGreeting greeting) const;
  SipHashTag tag_of(const wire::PeerHeader& header, ByteView signed_bytes, bool from_asker,
                    uint64_t index) const;

  comm::OwnFile socket_;
  Options options_;
  bool is_asker_;
  Rank other_ = comm::kFirstRank;
  SipHashKey key_ = {};
  wire::PeerGreeting challenge_ = {};
  wire::PeerGreeting hello_ = {};
  size_t hello_bytes_ = 0;  // received so far
  uint64_t sent_count_ = 0;
  uint64_t received_count_ = 0;
};

}  // namespace millrace::store
