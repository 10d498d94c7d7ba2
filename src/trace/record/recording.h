// Recording: reads the files that a session's processes write. docs/formats/recording.md.
//
// The files may belong to a running program, to one that was killed at any point, or be damaged. So
// everything is checked, and no byte is read twice and expected to be unchanged.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trace/read/byte_source.h"
#include "trace/read/tables.h"
#include "wire/trace_session.h"

namespace millrace::trace {

Result<wire::SessionPage> read_session_page(const ByteSource& source);
Result<wire::ProcessPage> read_process_page(const ByteSource& source);

// Host, boot and other fields of a session's page; its clock has only the page's own samples.
SessionEntry session_entry(const wire::SessionPage& page, std::string directory);

// The text of a name. Fails if the id points nowhere, or at bytes that do not match their hash.
Result<std::string> read_name(const ByteSource& names, wire::NameId id);

// The contents of a ring at some time: its header, and its slots without the empty ones at the end.
struct Chunk {
  wire::RingHeader header{};
  std::vector<wire::TraceSlot> slots;
};

// Where a chunk is. Chunks of the log are read when needed. Rings are copied, because their process
// may still write to them.
struct ChunkPlace {
  static constexpr uint64_t kInMemory = ~uint64_t{0};
  uint64_t log_offset = kInMemory;
  size_t ring_copy = 0;
  uint32_t ring = 0;
  uint64_t sequence = 0;
  uint32_t slot_count = 0;
};

// Chunks that are read as one block.
struct ChunkGroup {
  size_t first = 0;
  size_t count = 0;
};

// Groups the chunks of a process into blocks of at most kTraceBlockEventsMax events. A chunk has at
// most as many events as slots.
std::vector<ChunkGroup> group_chunks(const std::vector<ChunkPlace>& chunks);

// The word of a slot that is written last: 0 until the event is complete.
inline uint16_t call_of(const wire::TraceSlot& slot) {
  return static_cast<uint16_t>(slot.record.call);
}

inline bool is_ring_head(const wire::RingHeader& header) {
  return header.magic == wire::kRingMagic && header.slot_count <= wire::kRingSlots;
}

// What one process recorded, without what was `consumed`.
class ProcessRecording {
 public:
  enum class Extent {
    kLog,  // only complete chunks of the log, which will not change any more
    kAll,  // also the rings as they are now
  };

  // `open_log` runs after the rings were copied. So what a running process moves from a ring to the
  // log in the meantime is found in one of them. It returns null if there is no log.
  template <typename OpenLog>
  static Result<ProcessRecording> read(const ByteSource& rings, OpenLog open_log,
                                       const Consumed& consumed, Extent extent) {
    ProcessRecording recording;
    RETURN_IF_ERROR(recording.read_rings(rings, extent));
    ASSIGN_OR_RETURN(recording.log_, open_log());
    recording.find_chunks(consumed, extent);
    return recording;
  }

  const wire::ProcessPage& page() const { return page_; }
  const std::vector<ChunkPlace>& chunks() const { return chunks_; }  // by ring and sequence
  const std::vector<std::string>& problems() const { return problems_; }

  // What is consumed after all of chunks() were packed.
  const Consumed& consumed_after() const { return consumed_after_; }

  Status read_chunk(const ChunkPlace& place, Chunk& chunk) const;

 private:
  Status read_rings(const ByteSource& rings, Extent extent);
  void find_chunks(const Consumed& consumed, Extent extent);
  void find_log_chunks(uint64_t from_offset, Extent extent);
  uint64_t find_ring_magic(uint64_t from_offset) const;
  bool ring_holds(const wire::RingHeader& header) const;

  wire::ProcessPage page_{};
  std::vector<Chunk> rings_;
  std::unique_ptr<ByteSource> log_;
  std::vector<ChunkPlace> chunks_;
  std::vector<std::string> problems_;
  Consumed consumed_after_;
};

}  // namespace millrace::trace
