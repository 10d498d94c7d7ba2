#include "trace/read/packed_trace.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "trace/pack/compression.h"

namespace millrace::trace {
namespace {

using wire::TraceBlockHeader;
using wire::TraceBlockKind;
using wire::TraceFileHeader;
using wire::TraceTrailer;

constexpr size_t kScanBytes = 1 << 20;
constexpr uint64_t kNoBlock = ~uint64_t{0};

// The checksum in the last four bytes of a header covers the bytes before it.
template <typename Head>
bool checksum_matches(const Head& head) {
  const ByteView bytes = std::as_bytes(std::span(&head, 1));
  return crc32c(bytes.first(offsetof(Head, crc32c))) == head.crc32c;
}

bool is_plausible(const TraceBlockHeader& header) {
  if (header.magic != wire::kTraceBlockMagic || !checksum_matches(header)) return false;
  if (header.payload_bytes > wire::kTraceBlockBytesMax) return false;
  if (header.raw_bytes > wire::kTraceBlockBytesMax) return false;
  return header.kind != TraceBlockKind::kEvents ||
         (header.count >= 1 && header.count <= wire::kTraceBlockEventsMax);
}

uint64_t end_of(const PackedBlock& block) {
  return block.offset + sizeof(TraceBlockHeader) + block.header.payload_bytes;
}

}  // namespace

Result<PackedTrace> PackedTrace::open(ByteSource source, std::string name) {
  PackedTrace file(std::move(source), std::move(name));
  RETURN_IF_ERROR(file.read_header().within(file.name_));
  file.has_index_ = file.read_index();
  if (!file.has_index_) file.scan(sizeof(TraceFileHeader));
  file.take_blocks();
  return file;
}

Status PackedTrace::read_header() {
  std::vector<std::byte> scratch;
  const auto bytes = source_.view(0, sizeof(TraceFileHeader), scratch);
  if (!bytes.ok()) {
    return fail(Errc::kCorrupt, "{} bytes are too few for a packed trace", source_.size_bytes());
  }
  std::memcpy(&header_, bytes->data(), sizeof(header_));
  if (header_.magic != wire::kTraceFileMagic) {
    return fail(Errc::kCorrupt, "this is not a packed trace: it lacks the magic number");
  }
  if (!checksum_matches(header_)) {
    return fail(Errc::kCorrupt, "the header is damaged: its checksum does not match");
  }
  if (header_.version != wire::kTraceFileVersion) {
    return fail(Errc::kUnsupported,
                "was written in version {}; this build reads {}. Use the "
                "millrace that wrote it, or a newer one",
                header_.version, wire::kTraceFileVersion);
  }
  return {};
}

Result<PackedBlock> PackedTrace::block_at(uint64_t offset) const {
  std::vector<std::byte> scratch;
  ASSIGN_OR_RETURN(const ByteView bytes, source_.view(offset, sizeof(TraceBlockHeader), scratch));
  PackedBlock block{.offset = offset};
  std::memcpy(&block.header, bytes.data(), sizeof(block.header));
  if (!is_plausible(block.header)) {
    return fail(Errc::kCorrupt, "the block at byte {} is damaged: its header is invalid", offset);
  }
  if (end_of(block) > source_.size_bytes()) {
    return fail(Errc::kExhausted, "the file ends at byte {}, in the middle of the block at byte {}",
                source_.size_bytes(), offset);
  }
  return block;
}

bool PackedTrace::read_index() {
  std::vector<std::byte> scratch;
  const uint64_t size = source_.size_bytes();
  if (size < sizeof(TraceFileHeader) + sizeof(TraceTrailer)) return false;
  const auto bytes = source_.view(size - sizeof(TraceTrailer), sizeof(TraceTrailer), scratch);
  if (!bytes.ok()) return false;
  TraceTrailer trailer;
  std::memcpy(&trailer, bytes->data(), sizeof(trailer));
  if (trailer.magic != wire::kTraceTrailerMagic || !checksum_matches(trailer)) return false;
  const auto index = block_at(trailer.index_offset);
  if (!index.ok() || index->header.kind != TraceBlockKind::kIndex) {
    note(fail(Errc::kCorrupt,
              "the index at byte {} is damaged; searching for the blocks one by one",
              trailer.index_offset));
    return false;
  }
  const Status taken = take_index(*index);
  if (taken.ok()) return true;
  note(taken.error());
  blocks_.clear();
  return false;
}

Status PackedTrace::take_index(const PackedBlock& index) {
  ASSIGN_OR_RETURN(const auto bytes, payload(index));
  ByteReader in(bytes);
  uint64_t least_offset = sizeof(TraceFileHeader);
  for (uint32_t i = 0; i < index.header.count; ++i) {
    ASSIGN_OR_RETURN(const uint64_t offset, in.read_varint());
    ASSIGN_OR_RETURN(const auto header, in.read<TraceBlockHeader>());
    const PackedBlock block{offset, header};
    if (!is_plausible(header) || offset < least_offset || end_of(block) > index.offset) {
      return fail(Errc::kCorrupt, "the index names an impossible block at byte {}", offset);
    }
    least_offset = end_of(block);
    blocks_.push_back(block);
  }
  return {};
}

void PackedTrace::scan(uint64_t from_offset) {
  uint64_t offset = from_offset;
  while (offset < source_.size_bytes()) {
    const auto block = block_at(offset);
    if (block.ok()) {
      if (block->header.kind != TraceBlockKind::kIndex) blocks_.push_back(*block);
      offset = end_of(*block);
      continue;
    }
    // A valid header with a truncated payload ends the file. The payload of an index may contain
    // what looks like further blocks.
    if (block.error().code() == Errc::kExhausted) return note(block.error());
    const uint64_t next = find_block(offset + 1);
    // A trailer is not a block, but not damage either: the file was continued after it.
    const uint64_t end = std::min(next, source_.size_bytes());
    if (end - offset != sizeof(TraceTrailer)) note(block.error());
    if (next == kNoBlock) return;
    offset = next;
  }
}

// The first valid block header at or after an offset, to continue after damage.
uint64_t PackedTrace::find_block(uint64_t from_offset) const {
  std::vector<std::byte> scratch;
  const uint32_t magic = wire::kTraceBlockMagic;
  uint64_t offset = from_offset;
  while (offset + sizeof(TraceBlockHeader) <= source_.size_bytes()) {
    const size_t length = std::min<uint64_t>(kScanBytes, source_.size_bytes() - offset);
    const auto bytes = source_.view(offset, length, scratch);
    if (!bytes.ok()) return kNoBlock;
    const std::string_view text = text_of(*bytes);
    const std::string_view wanted(reinterpret_cast<const char*>(&magic), sizeof(magic));
    for (size_t at = text.find(wanted); at != std::string_view::npos;
         at = text.find(wanted, at + 1)) {
      const auto block = block_at(offset + at);
      // Check the payload too: an index is full of copies of headers.
      if (block.ok() && payload(*block).ok()) return offset + at;
    }
    if (length < kScanBytes) break;
    offset += length - sizeof(magic);
  }
  return kNoBlock;
}

// Drops blocks that no commit covers: a packer was stopped while writing them, and their events are
// still in the recording.
void PackedTrace::keep_committed() {
  std::vector<PackedBlock> kept;
  size_t first_pending = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].header.kind != TraceBlockKind::kCommit) continue;
    Commit commit;
    const auto bytes = payload(blocks_[i]);
    const Status taken =
        bytes.ok() ? take_commit(*bytes, blocks_[i].header.count, commit) : bytes.error();
    if (!taken.ok()) {
      note(taken.error());
      continue;
    }
    for (; first_pending <= i; ++first_pending) {
      if (blocks_[first_pending].offset >= commit.from_offset)
        kept.push_back(blocks_[first_pending]);
    }
    committed_bytes_ = end_of(blocks_[i]);
    for (auto& [recording, news] : commit.consumed) {
      Consumed& known = consumed_[recording];
      known.log_bytes = std::max(known.log_bytes, news.log_bytes);
      known.done = known.done || news.done;
      for (const auto& [ring, sequence] : news.next_sequence) known.next_sequence[ring] = sequence;
    }
  }
  blocks_ = std::move(kept);
}

void PackedTrace::take_blocks() {
  if (is_packed_recording()) keep_committed();
  for (const PackedBlock& block : blocks_) {
    if (block.header.kind == TraceBlockKind::kEvents) {
      event_blocks_.push_back(block);
      continue;
    }
    // The index has a copy of every header, so that a damaged header loses nothing.
    if (has_index_ && !block_at(block.offset).ok()) {
      note(fail(Errc::kCorrupt, "the header of the block at byte {} is damaged; using its copy",
                block.offset));
    }
    const Status taken = take_table(block);
    if (!taken.ok()) {
      note(fail(Errc::kCorrupt, "the block at byte {}: {}", block.offset, taken.error().message()));
    }
  }
  name_count_ = tables_.names.size();
  // Losses may refer to processes of an unreadable table. References of events are checked later.
  std::erase_if(event_blocks_, [&](const PackedBlock& block) {
    if (block.header.process < tables_.processes.size()) return false;
    note(fail(Errc::kCorrupt,
              "the {} events at byte {} belong to process {}, which is not in the tables",
              block.header.count, block.offset, block.header.process));
    return true;
  });
}

Status PackedTrace::read_on() {
  RETURN_IF_ERROR(source_.look_again());
  std::vector<PackedBlock> before = std::exchange(blocks_, {});
  // An incomplete block at the end is not damage here.
  const size_t known_problems = problems_.size();
  scan(committed_bytes_);
  problems_.resize(known_problems);
  take_blocks();
  before.insert(before.end(), blocks_.begin(), blocks_.end());
  blocks_ = std::move(before);
  return {};
}

Status PackedTrace::take_table(const PackedBlock& block) {
  const uint32_t count = block.header.count;
  ASSIGN_OR_RETURN(const auto bytes, payload(block));
  switch (block.header.kind) {
    case TraceBlockKind::kNames:
      return take_names(bytes, count, tables_);
    case TraceBlockKind::kSessions:
      return take_sessions(bytes, count, tables_);
    case TraceBlockKind::kProcesses:
      return take_processes(bytes, count, tables_);
    case TraceBlockKind::kThreads:
      return take_threads(bytes, count, tables_);
    case TraceBlockKind::kRankOrigins:
      return take_rank_origins(bytes, count, tables_);
    case TraceBlockKind::kLosses:
      return take_losses(bytes, count, tables_);
    case TraceBlockKind::kClock:
      return take_clock(bytes, count, clock_samples_);
    case TraceBlockKind::kEvents:
    case TraceBlockKind::kCommit:
    case TraceBlockKind::kIndex:
      break;
  }
  return {};  // a kind of a later version, which old readers may skip
}

Result<std::vector<std::byte>> PackedTrace::payload(const PackedBlock& block) const {
  std::vector<std::byte> scratch;
  ASSIGN_OR_RETURN(const ByteView packed, source_.view(block.offset + sizeof(TraceBlockHeader),
                                                       block.header.payload_bytes, scratch));
  if (crc32c(packed) != block.header.payload_crc32c) {
    return fail(Errc::kCorrupt, "the block at byte {} is damaged: its checksum does not match",
                block.offset);
  }
  if ((block.header.flags & wire::kTraceBlockCompressed) == 0) {
    return std::vector<std::byte>(packed.begin(), packed.end());
  }
  std::vector<std::byte> raw(block.header.raw_bytes);
  RETURN_IF_ERROR(Decompressor().decompress(packed, raw));
  return raw;
}

Status PackedTrace::check_references(const EventColumns& columns) const {
  const auto check = [](const auto& column, size_t limit, const char* what) -> Status {
    uint32_t greatest = 0;
    for (const auto value : column) greatest = std::max(greatest, static_cast<uint32_t>(value));
    if (greatest < limit) return {};
    return fail(Errc::kCorrupt, "{} {} is out of range: there are {}", what, greatest, limit);
  };
  RETURN_IF_ERROR(check(columns.file, name_count_, "name"));
  RETURN_IF_ERROR(check(columns.other_file, name_count_, "name"));
  RETURN_IF_ERROR(check(columns.thread, tables_.threads.size(), "thread"));
  for (const RegionTag& tag : columns.tags) {
    const uint64_t text = tag.kind == wire::TagKind::kText ? tag.value : 0;
    if (static_cast<uint32_t>(tag.key) < name_count_ && text < name_count_) continue;
    return fail(Errc::kCorrupt, "a tag refers to a text that is not in the tables");
  }
  return {};
}

// Returns a view of memory that the thread reuses for the next block.
Result<ByteView> PackedTrace::checked_body(const PackedBlock& block) const {
  thread_local std::vector<std::byte> scratch;
  const size_t head = sizeof(TraceBlockHeader);
  ASSIGN_OR_RETURN(const ByteView bytes,
                   source_.view(block.offset, head + block.header.payload_bytes, scratch));
  const ByteView body = bytes.subspan(head);
  if (std::memcmp(bytes.data(), &block.header, head) != 0 ||
      crc32c(body) != block.header.payload_crc32c) {
    return fail(Errc::kCorrupt, "its checksum does not match");
  }
  return body;
}

Error PackedTrace::lost(const PackedBlock& block, const Error& error) const {
  return fail(Errc::kCorrupt, "{}: the {} events at byte {} are lost: {}", name_,
              block.header.count, block.offset, error.message());
}

Status PackedTrace::read(size_t event_block, EventColumns& columns) const {
  thread_local BlockDecoder decoder;
  const PackedBlock& block = event_blocks_[event_block];
  const auto read_it = [&]() -> Status {
    ASSIGN_OR_RETURN(const ByteView body, checked_body(block));
    RETURN_IF_ERROR(decoder.decode(body, block.header.count, block.header.begin_ns, columns));
    return check_references(columns);
  };
  const Status status = read_it();
  if (!status.ok()) return lost(block, status.error());
  return {};
}

Result<uint32_t> PackedTrace::levels(size_t event_block) const {
  const PackedBlock& block = event_blocks_[event_block];
  const auto body = checked_body(block);
  if (!body.ok()) return lost(block, body.error());
  const auto levels = block_levels(*body, block.header.count);
  if (!levels.ok()) return lost(block, levels.error());
  return *levels;
}

}  // namespace millrace::trace
