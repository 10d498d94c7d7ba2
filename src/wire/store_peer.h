// StorePeer: what the store's services on different nodes say to each other over TCP.
// docs/formats/store-peer.md.
//
// A connection begins with a greeting in which both ends prove that they know the job's key. Then
// one end asks and the other answers, in order. Both ends run the same build: another version is
// refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint32_t kPeerMagic = 0x50534d52;  // "RMSP" as bytes
inline constexpr uint16_t kPeerVersion = 2;

// Longest question or answer; what is longer travels in pieces.
inline constexpr uint32_t kPeerMessageBytes = 4 << 20;

enum class PeerKind : uint16_t {
  kChallenge = 1,   // from the node that was connected to: its nonce
  kHello = 2,       // the reply: a nonce, and who asks; signed
  kWelcome = 3,     // the other end knows the key, too; signed
  kPing = 4,        // answered with nothing
  kEnd = 5,         // end the service
  kReadMember = 6,  // a PeerReadMember; the answer is packed bytes of a file
  kStatus = 7,      // answered with the StoreState
  kFlush = 9,       // without content: answered with a ticket; with it: with a FlushProgress
};

// How a flush of the node's buffer stands. If there is none, the answer is always kDurable.
enum class FlushProgress : uint8_t { kRunning = 'R', kDurable = 'D', kFailed = 'F' };

struct PeerGreeting {
  uint32_t magic;    // kPeerMagic
  uint16_t version;  // kPeerVersion
  PeerKind kind;
  uint32_t rank;      // of the sender
  uint32_t reserved;  // 0
  uint8_t nonce[16];  // random; zero in kWelcome
  uint8_t tag[16];    // SipHash-2-4 of the greeting with zeros here, with the connection's key:
                      // that of both nonces (challenge, hello) with the job's key. Zero in
                      // kChallenge
};
static_assert(sizeof(PeerGreeting) == 48);
static_assert(std::is_trivially_copyable_v<PeerGreeting>);

// Before each question and each answer.
struct PeerHeader {
  uint32_t magic;  // kPeerMagic
  PeerKind kind;
  uint16_t reserved;      // 0
  int32_t error;          // in an answer: 0, or 1 + the Errc, and a message follows; else 0
  uint32_t signed_bytes;  // of what follows, this much at its start is signed; the rest has a
                          // checksum that the receiver knows
  uint32_t size_bytes;    // of what follows, at most kPeerMessageBytes
  uint32_t reserved_too;  // 0
  uint8_t tag[16];        // SipHash-2-4 of a PeerSigned with the connection's key
};
static_assert(sizeof(PeerHeader) == 40);
static_assert(offsetof(PeerHeader, tag) == 24);
static_assert(std::is_trivially_copyable_v<PeerHeader>);

// The input of a message's tag. It is never sent: both ends know all of it.
struct PeerSigned {
  uint64_t from_asker;  // 1: from the end that connected
  uint64_t index;       // how many messages that end has sent before on this connection
  uint8_t content[16];  // SipHash-2-4 of the signed bytes with the connection's key
  PeerHeader header;    // with a tag of zeros
};
static_assert(sizeof(PeerSigned) == 72);

struct PeerReadMember {
  uint64_t identity;  // of the pack
  uint64_t entry;     // its index in the catalogue
  uint64_t offset_bytes;
  uint64_t size_bytes;  // at most kPeerMessageBytes
};
static_assert(sizeof(PeerReadMember) == 32);

}  // namespace millrace::wire
