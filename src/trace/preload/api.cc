// The functions with which programs mark their own regions: millrace/trace_api.h.
#include <millrace/trace_api.h>

#include <cstring>

#include "trace/preload/recorder.h"

namespace millrace::trace {
namespace {

constexpr size_t kTagsMax = 64;

int api_enabled() { return recording(Level::kApp) ? 1 : 0; }

uint64_t api_now() { return now(); }

uint32_t api_name(const char* text, size_t length) {
  if (!recording(Level::kApp) || text == nullptr) return 0;
  return static_cast<uint32_t>(intern({text, length}));
}

uint64_t api_place() {
  if (!recording(Level::kApp)) return 0;
  return this_place();
}

// A slot holds two tags.
void write_tags(wire::TraceSlot* slot, const millrace_tag* tags, size_t count) {
  for (size_t i = 0; i < count; i += 2) {
    wire::TraceTags& pair = (slot++)->tags;
    for (size_t half = 0; half < 2; ++half) {
      const bool there = i + half < count;
      pair.value[half] = there ? tags[i + half].value : 0;
      pair.key[half] = there ? NameId{tags[i + half].key} : kNoName;
      pair.kind[half] =
          there ? static_cast<wire::TagKind>(tags[i + half].kind) : wire::TagKind::kNone;
    }
    pair.tag = wire::SlotTag::kTags;
  }
}

void api_record(const millrace_event* event) {
  if (!recording(Level::kApp) || !settle_writer()) return;
  const uint64_t duration = event->end_ticks - event->begin_ticks;
  const bool wide = duration > UINT32_MAX;
  const bool foreign = event->origin != 0 && event->origin != this_place();
  const size_t tag_count = event->tag_count < kTagsMax ? event->tag_count : kTagsMax;
  const auto slots =
      static_cast<uint8_t>(1 + (wide ? 1 : 0) + (foreign ? 1 : 0) + (tag_count + 1) / 2);
  ++writer.depth;
  wire::TraceSlot* slot = reserve(slots);
  if (slot == nullptr) {
    --writer.depth;
    return count_lost_event(event->begin_ticks);
  }
  wire::TraceRecord& r = slot->record;
  r.begin_ticks = event->begin_ticks;
  r.offset = event->step;
  r.duration_ticks = static_cast<uint32_t>(duration);
  r.file = NameId{event->name};
  if (wide) {
    (++slot)->wide = {.size = event->epoch,
                      .duration_high = static_cast<uint32_t>(duration >> 32),
                      .tag = wire::SlotTag::kWide};
  }
  if (foreign) {
    (++slot)->origin = {.process = static_cast<uint32_t>(event->origin >> 32),
                        .thread = static_cast<uint32_t>(event->origin),
                        .tag = wire::SlotTag::kOrigin};
  }
  write_tags(slot + 1, event->tags, tag_count);
  const auto form = wide ? wire::ResultForm::kExtended : wire::ResultForm::kZero;
  const uint8_t flags =
      static_cast<uint8_t>(static_cast<uint8_t>(form) | (foreign ? wire::kFlagForeignOrigin : 0));
  commit(r, event->epoch, duration == 0 ? Call::kMark : Call::kRegion, slots, flags);
  --writer.depth;
}

void api_set_rank(int rank, int world_size) {
  if (recording(Level::kApp)) set_rank(rank, world_size);
}

// Like every thread-local variable, fork copies it with the calling thread.
thread_local millrace_context context{MILLRACE_NO_STEP, MILLRACE_NO_EPOCH, 0};

millrace_context* api_context() { return &context; }

void api_pause(int paused) { pause_recording(paused != 0); }

constexpr struct millrace_trace_functions kApi = {
    .size_bytes = sizeof(struct millrace_trace_functions),
    .enabled = &api_enabled,
    .now = &api_now,
    .name = &api_name,
    .place = &api_place,
    .record = &api_record,
    .set_rank = &api_set_rank,
    .context = &api_context,
    .pause = &api_pause,
};

}  // namespace
}  // namespace millrace::trace

extern "C" const struct millrace_trace_functions* millrace_trace_api() {
  return &millrace::trace::kApi;
}
