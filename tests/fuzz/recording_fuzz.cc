// Any bytes may be in a recording: in its names, a process page, a ring and a log. The input has
// the lengths of the first three, two bytes each, and then the four parts.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "trace/pack/block_codec.h"
#include "trace/read/recording_member.h"
#include "watch/recording_tail.h"

namespace {

using namespace millrace;

std::string_view take(std::string_view& rest, size_t size) {
  const std::string_view taken = rest.substr(0, size);
  rest.remove_prefix(taken.size());
  return taken;
}

size_t take_length(std::string_view& rest) {
  const std::string_view bytes = take(rest, 2);
  uint16_t length = 0;
  if (bytes.size() == sizeof(length)) std::memcpy(&length, bytes.data(), sizeof(length));
  return length;
}

// Follows the same bytes as if their process were running, and then as if it had ended.
void follow(const std::string& rings, const std::string& log) {
  watch::RecordingTail tail;
  const auto open_log = [&]() -> Result<std::unique_ptr<trace::ByteSource>> {
    return std::make_unique<trace::ByteSource>(bytes_of(log));
  };
  uint64_t events = 0;
  const auto count = [&](std::span<const wire::TraceSlot> slots, trace::HostThread) {
    if (slots.empty()) __builtin_trap();
    ++events;
  };
  for (const bool is_over : {false, false, true}) {
    tail.read(trace::ByteSource(bytes_of(rings)), open_log, is_over, count);
  }
  const uint64_t seen = events;
  tail.read(trace::ByteSource(bytes_of(rings)), open_log, true, count);
  if (events != seen) __builtin_trap();  // no event may be delivered twice
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const size_t names_length = take_length(rest);
  const size_t page_length = take_length(rest);
  const size_t ring_length = take_length(rest);
  const std::string names(take(rest, names_length));
  std::string rings(take(rest, page_length));
  rings.resize(wire::ring_offset(0));
  rings += take(rest, ring_length);
  rings.resize(wire::ring_offset(1));
  const std::string log(rest);
  follow(rings, log);
  auto recording = trace::ProcessRecording::read(
      trace::ByteSource(bytes_of(rings)),
      [&]() -> Result<std::unique_ptr<trace::ByteSource>> {
        return std::make_unique<trace::ByteSource>(bytes_of(log));
      },
      {}, trace::ProcessRecording::Extent::kAll);
  if (!recording.ok()) return 0;
  trace::SessionEntry session;
  session.clock.known = true;
  trace::TickMap ticks(wire::CounterSource::kTsc, recording->page().first);
  ticks.add(recording->page().last);
  std::vector<trace::OpenedRecording> recordings;
  recordings.push_back({"1-1", *std::move(recording)});
  const trace::RecordingMember member({.session = session,
                                       .names = trace::ByteSource(bytes_of(names)),
                                       .ticks = ticks,
                                       .recordings = std::move(recordings)});
  trace::EventColumns columns;
  for (size_t i = 0; i < member.blocks().size(); ++i) {
    const Status status = member.read(i, columns);
    if (!status.ok() || columns.size_events() != member.blocks()[i].event_count) __builtin_trap();
    if (!trace::check_columns(columns).ok()) __builtin_trap();
  }
  return 0;
}
