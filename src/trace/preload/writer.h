// Writer: a thread's position in its ring, and how an event is written there.
//
// Taking a slot is one addition that a signal cannot split, so a handler that does I/O takes the
// slots after it. An event counts once its last word is stored.
#pragma once

#include <atomic>
#include <cstdint>

#include "wire/trace_session.h"

namespace millrace::trace {

struct Writer {
  wire::TraceSlot* next;   // the next slot to take
  wire::TraceSlot* end;    // null: every event takes the slow path (no ring yet, or vfork)
  wire::TraceSlot* limit;  // the end of the ring
  wire::Ring* ring;
  uint32_t ring_number;
  uint32_t thread;           // the kernel's TID; 0: not known yet
  uint32_t context_process;  // the owner of the ring's next events, for its reader
  uint32_t context_thread;
  uint64_t place;  // this process << 32 | this thread; 0: not known yet
  uint32_t gate;   // Recorder::gate when this was set up; another value means another process
  uint32_t depth;  // events being written on this thread: more than one in a signal handler
  bool in_vfork;   // a vfork child runs in our memory
};

extern thread_local constinit Writer writer;

// Adds in one instruction and returns the previous value.
inline wire::TraceSlot* take_slots(uint32_t count) {
#if defined(__x86_64__)
  uint64_t slot = count * sizeof(wire::TraceSlot);
  asm volatile("xaddq %0, %1" : "+r"(slot), "+m"(writer.next) : : "cc", "memory");
  return reinterpret_cast<wire::TraceSlot*>(slot);
#else
  const uint64_t bytes = count * sizeof(wire::TraceSlot);
  auto& next = reinterpret_cast<uint64_t&>(writer.next);
  return reinterpret_cast<wire::TraceSlot*>(
      std::atomic_ref<uint64_t>(next).fetch_add(bytes, std::memory_order_relaxed));
#endif
}

// Null if nothing can be recorded; the caller then counts the loss.
wire::TraceSlot* take_slots_slow(uint32_t count);

inline wire::TraceSlot* reserve(uint32_t count) {
  wire::TraceSlot* slot = take_slots(count);
  if (__builtin_expect(slot + count <= writer.end, 1)) return slot;
  return take_slots_slow(count);
}

// Stores the last word of a slot: call, slots, flags and size.
inline void commit(wire::TraceRecord& record, uint32_t size, wire::Call call, uint8_t slots,
                   uint8_t flags) {
  const uint64_t word = uint64_t{size} | uint64_t{static_cast<uint16_t>(call)} << 32 |
                        uint64_t{slots} << 48 | uint64_t{flags} << 56;
  using Word [[gnu::may_alias]] = uint64_t;
  __atomic_store_n(reinterpret_cast<Word*>(&record.size), word, __ATOMIC_RELEASE);
}

}  // namespace millrace::trace
