// RecordedEvents: reads the events in the slots of a ring.
//
// Slots are as the traced program left them. It may have left empty slots, if it was killed or
// interrupted, and extension slots without an event. Both are skipped. An event whose own slots are
// inconsistent is counted as broken.
#pragma once

#include <cstdint>
#include <span>

#include "trace/read/columns.h"
#include "trace/read/tick_map.h"
#include "trace/record/recording.h"
#include "wire/trace_record.h"

namespace millrace::trace {

// A process and a thread as numbered by their host.
struct HostThread {
  uint32_t pid = 0;
  uint32_t tid = 0;
  bool operator==(const HostThread&) const = default;
};

inline bool is_extension(const wire::TraceSlot& slot) {
  const auto tag = static_cast<uint16_t>(slot.wide.tag);
  return tag >= static_cast<uint16_t>(wire::SlotTag::kWide) &&
         tag <= static_cast<uint16_t>(wire::SlotTag::kOrigin);
}

// Calls visit(slots of the event, its thread) for each event. Returns the number of broken events.
template <typename Visit>
uint64_t visit_events(const Chunk& chunk, Visit visit) {
  constexpr uint16_t kTagMin = 0xff00;
  HostThread thread{chunk.header.process, chunk.header.thread};
  uint64_t broken = 0;
  const std::span<const wire::TraceSlot> slots = chunk.slots;
  for (size_t i = 0; i < slots.size();) {
    const wire::TraceSlot& slot = slots[i];
    const auto call = static_cast<uint16_t>(slot.record.call);
    size_t length = 1;
    if (call >= kTagMin) {
      if (slot.context.tag == wire::SlotTag::kContext) {
        thread = {slot.context.process, slot.context.thread};
      }
    } else if (call != 0) {
      length = slot.record.slots;
      bool whole = length >= 1 && length <= slots.size() - i;
      for (size_t k = 1; whole && k < length; ++k) whole = is_extension(slots[i + k]);
      if (whole) {
        visit(slots.subspan(i, length), thread);
      } else {
        ++broken;
        length = 1;
      }
    }
    i += length;
  }
  return broken;
}

// Converts events to columns. `Names` and `Threads` map a NameId or a HostThread to an index:
//   NameIndex Names::operator()(wire::NameId), ThreadIndex Threads::operator()(HostThread)
template <typename Names, typename Threads>
class EventAppender {
 public:
  EventAppender(const TickMap& ticks, Names& names, Threads& threads, EventColumns& columns)
      : ticks_(ticks), names_(names), threads_(threads), columns_(columns) {}

  void append(std::span<const wire::TraceSlot> slots, HostThread thread) {
    const wire::TraceRecord& record = slots[0].record;
    uint64_t duration = record.duration_ticks;
    uint64_t size = record.size;
    uint64_t other_offset = wire::kNoOffset;
    NameIndex other_file{};
    uint32_t detail = 0;
    uint16_t error = 0;
    int64_t wide_result = 0;
    const size_t tags_before = columns_.tags.size();
    for (const wire::TraceSlot& slot : slots.subspan(1)) {
      switch (slot.wide.tag) {
        case wire::SlotTag::kWide:
          wide_result = slot.wide.result;
          size = slot.wide.size;
          duration |= uint64_t{slot.wide.duration_high} << 32;
          detail = slot.wide.detail;
          error = slot.wide.error;
          break;
        case wire::SlotTag::kOther:
          other_file = names_(slot.other.file);
          other_offset = slot.other.offset;
          break;
        case wire::SlotTag::kTags:
          append_tags(slot.tags);
          break;
        case wire::SlotTag::kOrigin:
          append_origin(slot.origin);
          break;
        case wire::SlotTag::kContext:
          break;
      }
    }
    columns_.size.push_back(size);
    columns_.result.push_back(result_of(record, size, wide_result));
    if (form_of(record) == wire::ResultForm::kInSize) columns_.size.back() = 0;
    const uint64_t begin_ns = ticks_.since_first_ns(record.begin_ticks);
    const uint64_t end_ns = ticks_.since_first_ns(record.begin_ticks + duration);
    columns_.begin_ns.push_back(begin_ns);
    columns_.duration_ns.push_back(end_ns > begin_ns ? end_ns - begin_ns : 0);
    columns_.call.push_back(record.call);
    columns_.file.push_back(names_(record.file));
    columns_.offset.push_back(record.offset);
    columns_.error.push_back(error);
    columns_.thread.push_back(threads_(thread));
    columns_.detail.push_back(detail);
    columns_.other_file.push_back(other_file);
    columns_.other_offset.push_back(other_offset);
    columns_.flags.push_back(static_cast<uint8_t>(record.flags & ~wire::kResultFormMask));
    count_tags(tags_before);
  }

  // Adds the end of the last event's tags, if there are tags. REQUIRES: nothing is appended
  // afterwards.
  void finish() {
    if (!columns_.tag_begin.empty()) {
      columns_.tag_begin.push_back(static_cast<uint32_t>(columns_.tags.size()));
    }
  }

 private:
  static wire::ResultForm form_of(const wire::TraceRecord& record) {
    return static_cast<wire::ResultForm>(record.flags & wire::kResultFormMask);
  }

  static int64_t result_of(const wire::TraceRecord& record, uint64_t size, int64_t wide_result) {
    switch (form_of(record)) {
      case wire::ResultForm::kExtended:
        return wide_result;
      case wire::ResultForm::kSize:
      case wire::ResultForm::kInSize:
        return static_cast<int64_t>(size);
      case wire::ResultForm::kZero:
        return 0;
      case wire::ResultForm::kOffset:
        return static_cast<int64_t>(record.offset);
    }
    return 0;
  }

  void append_tags(const wire::TraceTags& tags) {
    for (size_t i = 0; i < 2; ++i) {
      if (tags.kind[i] == wire::TagKind::kNone) continue;
      RegionTag tag{.key = names_(tags.key[i]), .kind = tags.kind[i], .value = tags.value[i]};
      if (tag.kind == wire::TagKind::kText) {
        tag.value = static_cast<uint64_t>(names_(static_cast<wire::NameId>(tags.value[i])));
      }
      columns_.tags.push_back(tag);
    }
  }

  // Stores as two tags where a region began that ended elsewhere. Hardly any event has this, and
  // separate columns would cost every reader.
  void append_origin(const wire::TraceOrigin& origin) {
    columns_.tags.push_back({names_.origin_pid(), wire::TagKind::kInteger, origin.process});
    columns_.tags.push_back({names_.origin_tid(), wire::TagKind::kInteger, origin.thread});
  }

  void count_tags(size_t tags_before) {
    if (columns_.tag_begin.empty()) {
      if (columns_.tags.empty()) return;
      columns_.tag_begin.assign(columns_.size_events() - 1, 0);
    }
    columns_.tag_begin.push_back(static_cast<uint32_t>(tags_before));
  }

  const TickMap& ticks_;
  Names& names_;
  Threads& threads_;
  EventColumns& columns_;
};

}  // namespace millrace::trace
