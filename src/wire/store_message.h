// StoreRequest and StoreReply: what the store's client asks the node service, over NODE/socket
// (AF_UNIX, SOCK_SEQPACKET). docs/formats/store-node.md.
//
// One packet each. Replies of a connection come in any order; `id` tells which request is answered.
// Both ends run the same build: a packet of another magic, version or length is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint32_t kStoreMessageMagic = 0x53534d52;  // "RMSS" as bytes
inline constexpr uint16_t kStoreMessageVersion = 2;

enum class StoreRequestKind : uint16_t {
  kMaterialise = 1,  // write the file of `entry` into the tree, and reply when it is there
  kPlace = 4,        // put its bytes into the arena, and reply when they are there (kStoreFast)
  kFollow = 5,       // fetch ahead by the order with the number `entry` (store_order.h)
};

struct StoreRequest {
  uint32_t magic;    // kStoreMessageMagic
  uint16_t version;  // kStoreMessageVersion
  StoreRequestKind kind;
  uint64_t id;     // chosen by the client
  uint64_t entry;  // its index in the catalogue
};
static_assert(sizeof(StoreRequest) == 24);
static_assert(std::is_trivially_copyable_v<StoreRequest>);

struct StoreReply {
  uint32_t magic;         // kStoreMessageMagic
  uint16_t version;       // kStoreMessageVersion
  StoreRequestKind kind;  // as in the request
  uint64_t id;            // as in the request
  int32_t error;          // an errno value; 0: done
  uint32_t reserved;      // 0
};
static_assert(sizeof(StoreReply) == 24);
static_assert(offsetof(StoreReply, error) == 16);
static_assert(std::is_trivially_copyable_v<StoreReply>);

}  // namespace millrace::wire
