#include "trace/record/recording.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "wire/trace_file.h"

namespace millrace::trace {
namespace {

using wire::kRingSlots;
using wire::RingHeader;
using wire::TraceSlot;

constexpr int kCopyAttempts = 8;
constexpr uint64_t kNowhere = ~uint64_t{0};
constexpr size_t kScanBytes = 1 << 20;

template <size_t kSize>
std::string text_field(const char (&field)[kSize]) {
  return std::string(field, strnlen(field, kSize));
}

template <typename Struct>
Result<Struct> read_begin(const ByteSource& source, const char* what) {
  std::vector<std::byte> scratch;
  const auto bytes = source.view(0, sizeof(Struct), scratch);
  if (!bytes.ok()) {
    return fail(Errc::kCorrupt, "{} bytes are too few for a {}", source.size_bytes(), what);
  }
  Struct begin;
  std::memcpy(&begin, bytes->data(), sizeof(begin));
  return begin;
}

// The magic number is the first field of a page, written last and erased first. So what is read
// between two reads of it is complete.
template <typename Page>
Result<Page> read_page(const ByteSource& source, uint64_t magic, const char* what) {
  ASSIGN_OR_RETURN(Page page, read_begin<Page>(source, what));
  ASSIGN_OR_RETURN(const auto after, read_begin<uint64_t>(source, what));
  if (page.magic != magic || after != magic) {
    return fail(Errc::kCorrupt,
                "does not begin with the magic number of a {}; its process may have been "
                "killed while creating it",
                what);
  }
  if (page.version != wire::kRecordingVersion) {
    return fail(Errc::kUnsupported,
                "was written in version {} of recordings; this build reads {}. "
                "Use the millrace that wrote it",
                page.version, wire::kRecordingVersion);
  }
  return page;
}

Result<wire::Ring> read_ring(const ByteSource& rings, uint32_t number) {
  std::vector<std::byte> scratch;
  ASSIGN_OR_RETURN(const ByteView bytes,
                   rings.view(wire::ring_offset(number), sizeof(wire::Ring), scratch));
  wire::Ring ring;
  std::memcpy(static_cast<void*>(&ring), bytes.data(), sizeof(ring));
  return ring;
}

// Whether a slot that `reading` found empty is full in `later`, although a slot after it was
// already full: the thread overtook the reading.
bool was_overtaken(const wire::Ring& reading, const wire::Ring& later) {
  bool is_before_a_full_one = false;
  for (size_t i = kRingSlots; i-- > 0;) {
    const bool is_full = call_of(reading.slots[i]) != 0;
    if (!is_full && is_before_a_full_one && call_of(later.slots[i]) != 0) return true;
    is_before_a_full_one = is_before_a_full_one || is_full;
  }
  return false;
}

// Copies a ring that its thread may be writing to. It is read twice: an event whose last word is in
// the first copy is complete in the second. If the ring was written to the log in between, or the
// thread overtook the first reading, it is read again. The result is everything that was recorded
// up to some moment.
Result<wire::Ring> copy_ring(const ByteSource& rings, uint32_t number) {
  for (int attempt = 0; attempt < kCopyAttempts; ++attempt) {
    ASSIGN_OR_RETURN(const wire::Ring before, read_ring(rings, number));
    ASSIGN_OR_RETURN(wire::Ring ring, read_ring(rings, number));
    if (ring.header.sequence != before.header.sequence || was_overtaken(before, ring)) continue;
    for (size_t i = 0; i < kRingSlots; ++i) {
      if (call_of(before.slots[i]) == 0) ring.slots[i] = TraceSlot{};
    }
    return ring;
  }
  return fail(Errc::kTimeout, "ring {} was written {} times while it was read; try again", number,
              kCopyAttempts);
}

}  // namespace

Result<wire::SessionPage> read_session_page(const ByteSource& source) {
  return read_page<wire::SessionPage>(source, wire::kSessionMagic, "session's page");
}

Result<wire::ProcessPage> read_process_page(const ByteSource& source) {
  return read_page<wire::ProcessPage>(source, wire::kProcessMagic, "process's page");
}

SessionEntry session_entry(const wire::SessionPage& page, std::string directory) {
  SessionEntry entry;
  entry.session.host = text_field(page.host);
  entry.session.boot_id = text_field(page.boot_id);
  entry.session.launcher_pid = page.launcher_pid;
  entry.session.levels = page.levels;
  entry.session.cores = page.cores;
  entry.session.filters = text_field(page.filters);
  entry.clock.known = true;
  entry.clock.counter = page.counter;
  entry.clock.first = page.first;
  entry.clock.last = page.last.counter_ticks != 0 ? page.last : page.first;
  entry.directory = std::move(directory);
  return entry;
}

Result<std::string> read_name(const ByteSource& names, wire::NameId id) {
  const uint64_t offset = 8 * uint64_t{static_cast<uint32_t>(id)};
  std::vector<std::byte> scratch;
  const auto missing = [&] {
    return fail(Errc::kCorrupt, "name {} is not in the table of {} bytes",
                static_cast<uint32_t>(id), names.size_bytes());
  };
  if (offset < sizeof(wire::NamesHeader)) return missing();
  const auto head = names.view(offset, sizeof(wire::NameEntry), scratch);
  if (!head.ok()) return missing();
  wire::NameEntry entry;
  std::memcpy(&entry, head->data(), sizeof(entry));
  if (entry.length > wire::kNameLengthMax) return missing();
  const auto bytes = names.view(offset + sizeof(entry), entry.length, scratch);
  if (!bytes.ok()) return missing();
  std::string text(text_of(*bytes));
  if (static_cast<uint32_t>(wire::name_hash(text.data(), text.size()) >> 32) != entry.hash) {
    return fail(Errc::kCorrupt, "name {} is damaged: its hash does not match",
                static_cast<uint32_t>(id));
  }
  return text;
}

Status ProcessRecording::read_rings(const ByteSource& rings, Extent extent) {
  ASSIGN_OR_RETURN(page_, read_process_page(rings));
  if (extent == Extent::kLog) return {};
  // Use the size of the file, not the count of the page: a process killed between the two updates
  // has rings that were not counted.
  const uint64_t room = rings.size_bytes() / wire::kRingSizeBytes;
  for (uint32_t number = 0; number + 1 < room; ++number) {
    auto ring = copy_ring(rings, number);
    if (!ring.ok()) {
      problems_.push_back(ring.error().message());
      continue;
    }
    if (ring->header.magic != wire::kRingMagic) continue;  // created but not used yet
    Chunk chunk{.header = ring->header, .slots = {}};
    chunk.header.ring = number;
    size_t used = kRingSlots;
    while (used > 0 && call_of(ring->slots[used - 1]) == 0) --used;
    chunk.slots.assign(ring->slots, ring->slots + used);
    chunk.header.slot_count = static_cast<uint32_t>(used);
    rings_.push_back(std::move(chunk));
  }
  return {};
}

bool ProcessRecording::ring_holds(const RingHeader& header) const {
  return std::any_of(rings_.begin(), rings_.end(), [&](const Chunk& chunk) {
    return chunk.header.ring == header.ring && chunk.header.sequence == header.sequence;
  });
}

// The next offset at which a chunk may begin, to continue after damage.
uint64_t ProcessRecording::find_ring_magic(uint64_t from_offset) const {
  std::vector<std::byte> scratch;
  const uint32_t magic = wire::kRingMagic;
  const std::string_view wanted(reinterpret_cast<const char*>(&magic), sizeof(magic));
  for (uint64_t offset = from_offset; offset < log_->size_bytes();) {
    const size_t length = std::min<uint64_t>(kScanBytes, log_->size_bytes() - offset);
    const auto bytes = log_->view(offset, length, scratch);
    if (!bytes.ok()) return kNowhere;
    const size_t at = text_of(*bytes).find(wanted);
    if (at != std::string_view::npos) return offset + at;
    if (length < kScanBytes) return kNowhere;
    offset += length - sizeof(magic) + 1;
  }
  return kNowhere;
}

void ProcessRecording::find_log_chunks(uint64_t from_offset, Extent extent) {
  std::vector<std::byte> scratch;
  uint64_t offset = from_offset;
  while (log_->size_bytes() - offset >= sizeof(RingHeader)) {
    RingHeader header;
    const auto bytes = log_->view(offset, sizeof(header), scratch);
    if (!bytes.ok()) return problems_.push_back(bytes.error().message());
    std::memcpy(&header, bytes->data(), sizeof(header));
    if (!is_ring_head(header)) {
      const uint64_t next = find_ring_magic(offset + 1);
      problems_.push_back(fmt::format("the log has no ring at byte {}; continuing at {}", offset,
                                      next == kNowhere ? "its end" : fmt::format("byte {}", next)));
      if (next == kNowhere) return;
      offset = next;
      continue;
    }
    const uint64_t room = (log_->size_bytes() - offset - sizeof(header)) / sizeof(TraceSlot);
    const bool torn = room < header.slot_count;
    // A torn chunk: its process was killed while writing it, and the ring still has everything; or
    // it is being written right now.
    if (torn && (extent == Extent::kLog || ring_holds(header))) return;
    ChunkPlace place{.log_offset = offset, .ring = header.ring, .sequence = header.sequence};
    place.slot_count = torn ? static_cast<uint32_t>(room) : header.slot_count;
    if (torn) {
      problems_.push_back(
          fmt::format("the log ends in the middle of the ring at byte {}; {} of its "
                      "{} slots are read",
                      offset, room, header.slot_count));
    }
    chunks_.push_back(place);
    offset += sizeof(header) + uint64_t{place.slot_count} * sizeof(TraceSlot);
    consumed_after_.log_bytes = offset;
    uint64_t& next = consumed_after_.next_sequence[header.ring];
    next = std::max(next, header.sequence + 1);
    if (torn) return;
  }
}

void ProcessRecording::find_chunks(const Consumed& consumed, Extent extent) {
  consumed_after_ = consumed;
  if (log_ != nullptr && consumed.log_bytes <= log_->size_bytes()) {
    find_log_chunks(consumed.log_bytes, extent);
  }
  for (size_t i = 0; i < rings_.size(); ++i) {
    const RingHeader& header = rings_[i].header;
    const auto known = consumed_after_.next_sequence.find(header.ring);
    if (known != consumed_after_.next_sequence.end() && header.sequence < known->second) continue;
    if (rings_[i].slots.empty()) continue;
    chunks_.push_back({.ring_copy = i,
                       .ring = header.ring,
                       .sequence = header.sequence,
                       .slot_count = header.slot_count});
  }
  std::sort(chunks_.begin(), chunks_.end(), [](const ChunkPlace& a, const ChunkPlace& b) {
    return std::tuple(a.ring, a.sequence, a.log_offset) <
           std::tuple(b.ring, b.sequence, b.log_offset);
  });
}

Status ProcessRecording::read_chunk(const ChunkPlace& place, Chunk& chunk) const {
  if (place.log_offset == ChunkPlace::kInMemory) {
    chunk = rings_[place.ring_copy];
    return {};
  }
  thread_local std::vector<std::byte> scratch;
  const size_t slots_bytes = place.slot_count * sizeof(TraceSlot);
  ASSIGN_OR_RETURN(const ByteView bytes,
                   log_->view(place.log_offset, sizeof(RingHeader) + slots_bytes, scratch));
  std::memcpy(&chunk.header, bytes.data(), sizeof(RingHeader));
  if (!is_ring_head(chunk.header)) {
    return fail(Errc::kNotFound,
                "the ring at byte {} of the log is gone: it was packed meanwhile. "
                "Open the trace again",
                place.log_offset);
  }
  chunk.slots.resize(place.slot_count);
  if (slots_bytes > 0) {
    std::memcpy(static_cast<void*>(chunk.slots.data()), bytes.data() + sizeof(RingHeader),
                slots_bytes);
  }
  return {};
}

std::vector<ChunkGroup> group_chunks(const std::vector<ChunkPlace>& chunks) {
  std::vector<ChunkGroup> groups;
  size_t slots = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    slots += chunks[i].slot_count;
    if (groups.empty() || slots > wire::kTraceBlockEventsMax) {
      groups.push_back({.first = i, .count = 0});
      slots = chunks[i].slot_count;
    }
    ++groups.back().count;
  }
  return groups;
}

}  // namespace millrace::trace
