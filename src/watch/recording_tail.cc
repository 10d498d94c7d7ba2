#include "watch/recording_tail.h"

#include <algorithm>
#include <cstring>

#include "trace/record/recording.h"

namespace millrace::watch {
namespace {

using trace::ByteSource;
using trace::call_of;
using trace::Chunk;
using trace::HostThread;
using trace::is_ring_head;
using wire::kRingSlots;
using wire::RingHeader;
using wire::TraceSlot;

constexpr size_t kStepSlots = 128;        // read at a time while the number of slots is unknown
constexpr size_t kLoggedMax = 1 << 16;    // chunks remembered individually: 4 GiB of log
constexpr size_t kSearchBytes = 1 << 20;  // searched at a time for the next ring after damage

Result<RingHeader> read_header(const ByteSource& source, uint64_t offset,
                               std::vector<std::byte>& scratch) {
  ASSIGN_OR_RETURN(const ByteView bytes, source.view(offset, sizeof(RingHeader), scratch));
  RingHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

// Appends `count` slots to `slots`. Returns false if they do not exist.
bool read_slots(const ByteSource& source, uint64_t offset, size_t count,
                std::vector<TraceSlot>& slots, std::vector<std::byte>& scratch) {
  const auto bytes = source.view(offset, count * sizeof(TraceSlot), scratch);
  if (!bytes.ok()) return false;
  const size_t before = slots.size();
  slots.resize(before + count);
  if (count > 0) std::memcpy(slots.data() + before, bytes->data(), bytes->size());
  return true;
}

uint64_t slot_offset(uint32_t ring, size_t slot) {
  return wire::ring_offset(ring) + sizeof(RingHeader) + slot * sizeof(TraceSlot);
}

// Returns how many slots at the start belong to complete events. The first slot of an event is
// written last: once it is there, so is the rest of the event, even if this read did not see it.
size_t whole_slots(const std::vector<TraceSlot>& slots, size_t room) {
  size_t at = 0;
  while (at < slots.size() && call_of(slots[at]) != 0) {
    const bool is_event = call_of(slots[at]) < 0xff00;
    const size_t length = is_event ? std::max<size_t>(1, slots[at].record.slots) : 1;
    if (length > room - at) return at + 1;  // broken: visit_events reports it
    at += length;
  }
  return at;
}

// Copies the new slots of a ring that its thread may be writing. Reads twice: an event whose first
// slot was there in the first read is complete in the second.
bool copy_new_slots(const ByteSource& rings, uint32_t ring, size_t first, bool is_over,
                    std::vector<TraceSlot>& slots, std::vector<std::byte>& scratch) {
  const size_t room = kRingSlots - first;
  slots.clear();
  if (is_over) return read_slots(rings, slot_offset(ring, first), room, slots, scratch);
  size_t count = 0;
  while (slots.size() < room) {
    const size_t step = std::min(kStepSlots, room - slots.size());
    if (!read_slots(rings, slot_offset(ring, first + slots.size()), step, slots, scratch))
      return false;
    count = whole_slots(slots, room);
    if (count < slots.size()) break;
  }
  slots.clear();
  return read_slots(rings, slot_offset(ring, first), count, slots, scratch);
}

bool is_hole(const RingHeader& header) {
  const RingHeader nothing{};
  return std::memcmp(&header, &nothing, sizeof(header)) == 0;
}

void add(RecordingTail::Counts& to, const RecordingTail::Counts& from) {
  for (const auto& [thread, count] : from) to[thread] += count;
}

}  // namespace

std::vector<RecordingTail::RingCopy> RecordingTail::copy_rings(const ByteSource& rings,
                                                               bool is_over) {
  std::vector<RingCopy> copies;
  const uint64_t room = rings.size_bytes() / wire::kRingSizeBytes;
  for (uint32_t ring = 0; ring + 1 < room; ++ring) {
    const auto before = read_header(rings, wire::ring_offset(ring), scratch_);
    if (!before.ok() || before->magic != wire::kRingMagic) continue;
    const auto known = rings_.find(ring);
    const bool goes_on = known != rings_.end() && known->second.sequence == before->sequence;
    RingCopy copy{.ring = ring, .first_slot = goes_on ? known->second.slots : 0};
    if (!copy_new_slots(rings, ring, copy.first_slot, is_over, copy.chunk.slots, scratch_))
      continue;
    const auto after = read_header(rings, wire::ring_offset(ring), scratch_);
    // Written out meanwhile: it is in the log.
    if (!after.ok() || after->sequence != before->sequence) continue;
    copy.chunk.header = *before;
    copy.chunk.header.ring = ring;
    if (goes_on && copy.first_slot > 0) {
      copy.chunk.header.process = known->second.thread.pid;
      copy.chunk.header.thread = known->second.thread.tid;
    }
    copies.push_back(std::move(copy));
  }
  return copies;
}

void RecordingTail::skip(const ByteSource& rings, const OpenLog& open_log) {
  for (const RingCopy& copy : copy_rings(rings, false)) {
    RingState& state = rings_[copy.ring];
    state.sequence = copy.chunk.header.sequence;
    deliver(copy.chunk, state, nullptr);
  }
  const auto log = open_log();
  if (!log.ok() || *log == nullptr) return;
  // Rings are appended whole, so every multiple of their size is a boundary.
  log_offset_ = (*log)->size_bytes() / wire::kRingSizeBytes * wire::kRingSizeBytes;
}

void RecordingTail::read(const ByteSource& rings, const OpenLog& open_log, bool is_over,
                         const Visit& visit) {
  is_behind_ = false;
  const std::vector<RingCopy> copies = copy_rings(rings, is_over);
  const auto log = open_log();
  if (!log.ok()) {
    is_behind_ = log.error().code() == Errc::kNotFound;
    if (!is_behind_) problems_.push_back(log.error().message());
  } else if (*log != nullptr) {
    read_log(**log, copies, is_over, visit);
  }
  if (is_behind_) return;  // deliver what the packer took first
  for (const RingCopy& copy : copies) {
    RingState& state = rings_[copy.ring];
    if (copy.chunk.header.sequence < state.sequence) continue;  // it was delivered from the log
    if (copy.chunk.header.sequence > state.sequence) {
      // The rings in between could not be written out and were counted as lost.
      state = {.sequence = copy.chunk.header.sequence, .thread = {}, .delivered = {}};
    }
    deliver(copy.chunk, state, visit);
  }
}

void RecordingTail::read_log(const ByteSource& log, const std::vector<RingCopy>& copies,
                             bool is_over, const Visit& visit) {
  while (log.size_bytes() >= log_offset_ + sizeof(RingHeader)) {
    if (!read_log_chunk(log, copies, is_over, visit)) return;
  }
}

bool RecordingTail::read_log_chunk(const ByteSource& log, const std::vector<RingCopy>& copies,
                                   bool is_over, const Visit& visit) {
  const auto header = read_header(log, log_offset_, scratch_);
  if (!header.ok()) return false;
  if (!is_ring_head(*header)) {
    is_behind_ = is_hole(*header);
    return !is_behind_ && pass_damage(log);
  }
  const uint64_t room = (log.size_bytes() - log_offset_ - sizeof(RingHeader)) / sizeof(TraceSlot);
  size_t count = header->slot_count;
  if (room < count) {
    // The chunk is still being written, or its process ended while writing it. In the latter case
    // its ring may have all of it.
    const bool is_in_ring = std::any_of(copies.begin(), copies.end(), [&](const RingCopy& copy) {
      return copy.ring == header->ring && copy.chunk.header.sequence == header->sequence;
    });
    if (!is_over || is_in_ring) return false;
    count = room;
  }
  Chunk chunk{.header = *header, .slots = {}};
  const uint64_t slots_at = log_offset_ + sizeof(RingHeader);
  if (!read_slots(log, slots_at, count, chunk.slots, scratch_)) return false;
  // A packer frees space from the front. If the header is still there, so was the rest.
  const auto after = read_header(log, log_offset_, scratch_);
  if (!after.ok() || !is_ring_head(*after)) {
    is_behind_ = true;
    return false;
  }
  log_offset_ = slots_at + count * sizeof(TraceSlot);
  deliver_logged(std::move(chunk), visit);
  return true;
}

// Skips damaged bytes and continues at the next ring. Returns false if there is none yet.
bool RecordingTail::pass_damage(const ByteSource& log) {
  const uint32_t magic = wire::kRingMagic;
  const std::string_view wanted(reinterpret_cast<const char*>(&magic), sizeof(magic));
  const uint64_t from = log_offset_ + 1;
  for (uint64_t offset = from; offset + sizeof(magic) <= log.size_bytes();) {
    const size_t length = std::min<uint64_t>(kSearchBytes, log.size_bytes() - offset);
    const auto bytes = log.view(offset, length, scratch_);
    if (!bytes.ok()) return false;
    const size_t at = text_of(*bytes).find(wanted);
    if (at != std::string_view::npos) {
      if (!has_reported_damage_) {
        problems_.push_back(
            fmt::format("the log is damaged at byte {}; reading continues at byte {}", log_offset_,
                        offset + at));
      }
      has_reported_damage_ = true;
      log_offset_ = offset + at;
      return true;
    }
    offset += length - sizeof(magic) + 1;
  }
  problems_.push_back(fmt::format("the log is damaged from byte {} on", log_offset_));
  return false;
}

void RecordingTail::deliver_logged(Chunk chunk, const Visit& visit) {
  const uint64_t sequence = chunk.header.sequence;
  RingState& state = rings_[chunk.header.ring];
  if (sequence < state.sequence) return;
  if (sequence > state.sequence) state = {.sequence = sequence, .thread = {}, .delivered = {}};
  const size_t seen = std::min(state.slots, chunk.slots.size());
  if (seen > 0) {
    chunk.header.process = state.thread.pid;
    chunk.header.thread = state.thread.tid;
    chunk.slots.erase(chunk.slots.begin(), chunk.slots.begin() + static_cast<ptrdiff_t>(seen));
  }
  deliver(chunk, state, visit);
  remember({log_offset_, std::move(state.delivered)});
  state = {.sequence = sequence + 1, .thread = {}, .delivered = {}};
}

// Without a visitor, the events are only marked as seen.
void RecordingTail::deliver(const Chunk& chunk, RingState& state, const Visit& visit) {
  state.slots += chunk.slots.size();
  state.thread = {chunk.header.process, chunk.header.thread};
  for (const TraceSlot& slot : chunk.slots) {
    if (slot.context.tag != wire::SlotTag::kContext) continue;
    state.thread = {slot.context.process, slot.context.thread};
  }
  if (!visit) return;
  uint64_t* count = nullptr;
  HostThread counted;
  trace::visit_events(chunk, [&](std::span<const TraceSlot> slots, HostThread thread) {
    if (count == nullptr || thread != counted) {
      count = &state.delivered[{thread.pid, thread.tid}];
      counted = thread;
    }
    ++*count;
    visit(slots, thread);
  });
}

// If no packer runs, merge the oldest two: a packer that starts later starts at the beginning of
// the log anyway.
void RecordingTail::remember(LoggedChunk chunk) {
  logged_.push_back(std::move(chunk));
  if (logged_.size() <= kLoggedMax) return;
  add(logged_[1].delivered, logged_[0].delivered);
  logged_.pop_front();
}

RecordingTail::Counts RecordingTail::delivered_before(const trace::Consumed& consumed) const {
  Counts counts;
  for (const LoggedChunk& chunk : logged_) add(counts, chunk.delivered);
  for (const auto& [ring, state] : rings_) {
    const auto next = consumed.next_sequence.find(ring);
    const bool is_logged = next != consumed.next_sequence.end() && state.sequence < next->second;
    if (consumed.done || is_logged) add(counts, state.delivered);
  }
  return counts;
}

void RecordingTail::settle(const trace::Consumed& consumed) {
  while (!logged_.empty() && logged_.front().end_offset <= consumed.log_bytes) logged_.pop_front();
  if (consumed.log_bytes <= log_offset_) return;
  log_offset_ = consumed.log_bytes;
  for (const auto& [ring, sequence] : consumed.next_sequence) {
    RingState& state = rings_[ring];
    if (state.sequence < sequence) state = {.sequence = sequence, .thread = {}, .delivered = {}};
  }
}

}  // namespace millrace::watch
