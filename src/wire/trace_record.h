// TraceRecord: an event as the recorder writes it, in slots of 32 bytes. docs/formats/recording.md.
//
// One slot is enough for nearly every call. Rare values (errors, wide numbers, a second file, tags)
// follow in further slots. The recorder stores the word with the call number last. If a process is
// killed in the middle of an event, the number stays 0: readers skip that slot, and extension slots
// that follow no event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/trace_call.h"
#include "wire/wire.h"

namespace millrace::wire {

// A name in the session's name table: its offset in the file of names, divided by 8. 0: no name.
enum class NameId : uint32_t {};
inline constexpr NameId kNoName{0};

inline constexpr uint64_t kNoOffset = ~uint64_t{0};

// How the result is stored, so that most events fit into one slot.
enum class ResultForm : uint8_t {
  kExtended = 0,  // in the TraceWide slot
  kSize = 1,      // equals size: the whole request succeeded
  kZero = 2,      // 0
  kInSize = 3,    // the size field holds the result, and no size was requested (open: the
                  // descriptor)
  kOffset = 4,    // equals the offset (lseek)
};

inline constexpr uint8_t kResultFormMask = 0x07;
// The region ended on another thread, or in another process. A TraceOrigin follows.
inline constexpr uint8_t kFlagForeignOrigin = 0x08;
// The offset or the size is an estimate.
inline constexpr uint8_t kFlagEstimate = 0x10;

// The first slot of an event.
struct TraceRecord {
  uint64_t begin_ticks;
  uint64_t offset;          // bytes; kNoOffset: the call has none. For a region: its step
  uint32_t duration_ticks;  // the low half; the high half is in TraceWide
  NameId file;              // the path, or the name of a region
  uint32_t size;            // requested bytes, unless a TraceWide follows. For a region: its epoch
  Call call;                // its word is the last of the slot, and written last
  uint8_t slots;            // of the whole event, at least 1
  uint8_t flags;            // ResultForm and the bits above
};
static_assert(sizeof(TraceRecord) == 32);
static_assert(offsetof(TraceRecord, size) == 24 && offsetof(TraceRecord, call) == 28);

// For a region without epoch or step.
inline constexpr uint32_t kNoEpoch = ~uint32_t{0};
inline constexpr uint64_t kNoStep = ~uint64_t{0};

// The tag of an extension slot is at the offset of an event's call.
enum class SlotTag : uint16_t {
  kWide = 0xff01,
  kOther = 0xff02,
  kTags = 0xff03,
  kOrigin = 0xff04,
  kContext = 0xff05,  // a slot of its own, not part of an event
};

// What does not fit into a TraceRecord: result, error, and numbers beyond 32 bits.
struct TraceWide {
  int64_t result;
  uint64_t size;
  uint32_t duration_high;
  uint32_t detail;  // depends on the call: open flags, whence, advice, fcntl command, PID of a
                    // child
  uint32_t reserved;
  SlotTag tag;
  uint16_t error;  // errno after the call; 0: none
};
static_assert(sizeof(TraceWide) == 32 && offsetof(TraceWide, tag) == 28);

// The second file of rename, link, sendfile, copy_file_range and splice: the destination.
struct TraceOther {
  uint64_t offset;
  uint64_t reserved;
  NameId file;
  uint32_t reserved2;
  uint32_t reserved3;
  SlotTag tag;
  uint16_t reserved4;
};
static_assert(sizeof(TraceOther) == 32 && offsetof(TraceOther, tag) == 28);

enum class TagKind : uint8_t { kNone = 0, kInteger = 1, kNumber = 2, kText = 3 };

// Two key=value tags of a region. The value of a text is a NameId, that of a number the bits of a
// double.
struct TraceTags {
  uint64_t value[2];
  NameId key[2];
  TagKind kind[2];
  uint16_t reserved;
  SlotTag tag;
  uint16_t reserved2;
};
static_assert(sizeof(TraceTags) == 32 && offsetof(TraceTags, tag) == 28);

// Where a region began that ended elsewhere.
struct TraceOrigin {
  uint32_t process;
  uint32_t thread;
  uint64_t reserved[2];
  uint32_t reserved2;
  SlotTag tag;
  uint16_t reserved3;
};
static_assert(sizeof(TraceOrigin) == 32 && offsetof(TraceOrigin, tag) == 28);

// The events after this slot belong to another thread (the ring changed hands) or to a vfork child.
struct TraceContext {
  uint64_t ticks;
  uint32_t process;
  uint32_t thread;
  uint64_t reserved;
  uint32_t reserved2;
  SlotTag tag;
  uint16_t reserved3;
};
static_assert(sizeof(TraceContext) == 32 && offsetof(TraceContext, tag) == 28);

union TraceSlot {
  TraceRecord record;
  TraceWide wide;
  TraceOther other;
  TraceTags tags;
  TraceOrigin origin;
  TraceContext context;
};
static_assert(sizeof(TraceSlot) == 32);
static_assert(std::is_trivially_copyable_v<TraceSlot>);

}  // namespace millrace::wire
