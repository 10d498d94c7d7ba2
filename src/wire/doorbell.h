// DoorbellPage: shared memory through which a thread of one process wakes a thread of another on
// the same host. docs/formats/doorbell.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/wire.h"

namespace millrace::wire {

inline constexpr uint64_t kDoorbellMagic = 0x4c4c4542454d5200;  // "\0RMEBELL" as bytes
inline constexpr size_t kDoorbellPageBytes = 4096;

struct DoorbellPage {
  uint64_t magic;       // kDoorbellMagic
  uint64_t key[2];      // random: on another host, the same PID is another process
  uint32_t ring_count;  // a futex; wraps around
  uint32_t sleeps;      // 1 while its owner sleeps; otherwise a ringer needs no system call
};
static_assert(sizeof(DoorbellPage) == 32);
static_assert(offsetof(DoorbellPage, ring_count) == 24);
static_assert(std::is_trivially_copyable_v<DoorbellPage>);

}  // namespace millrace::wire
