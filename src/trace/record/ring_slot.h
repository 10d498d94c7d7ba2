// Predicates on the bytes of a ring that may still be written.
#pragma once

#include <cstdint>

#include "wire/trace_session.h"

namespace millrace::trace {

// The word of a slot that is written last: 0 until the event is complete.
inline uint16_t call_of(const wire::TraceSlot& slot) {
  return static_cast<uint16_t>(slot.record.call);
}

inline bool is_ring_head(const wire::RingHeader& header) {
  return header.magic == wire::kRingMagic && header.slot_count <= wire::kRingSlots;
}

}  // namespace millrace::trace
