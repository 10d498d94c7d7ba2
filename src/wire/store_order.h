// StoreOrder: the coming reads of a loader, for the store's node service.
// docs/formats/store-node.md.
//
// A file NODE/order-NUMBER that the loader creates and maps: a header, and a ring of catalogue
// entries. The loader announces it by a request (StoreRequestKind::kFollow, `entry` is the number)
// on a connection that it keeps; the order ends with the connection. The service removes the name,
// and reads the file without mapping it: whatever the loader does to it, the service lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kStoreOrderMagic = 0x4452524f534d5200;  // "\0RMSORRD" as bytes
inline constexpr uint32_t kStoreOrderVersion = 1;
inline constexpr uint32_t kStoreOrderSlots = 1 << 12;
inline constexpr char kStoreOrderFile[] = "order-";  // and 16 hexadecimal digits

// In place of an entry: a read that the loader does without the service.
inline constexpr uint32_t kStoreOrderSkip = 0xffff'ffff;

// The three numbers only grow. Each has one writer; the loader accesses them atomically.
struct StoreOrderHeader {
  uint64_t magic;       // kStoreOrderMagic
  uint32_t version;     // kStoreOrderVersion
  uint32_t slot_count;  // kStoreOrderSlots
  uint64_t end;         // reads that the loader has written; read i is in slot i mod slot_count
  uint64_t position;    // reads that the loader has done
  uint64_t taken;       // reads that the service has copied; their slots may be written again
  uint64_t reserved[3];
};
static_assert(sizeof(StoreOrderHeader) == 64);

struct StoreOrder {
  StoreOrderHeader header;
  uint32_t slots[kStoreOrderSlots];
};
static_assert(offsetof(StoreOrder, slots) == 64);
static_assert(std::is_trivially_copyable_v<StoreOrder>);

}  // namespace millrace::wire
