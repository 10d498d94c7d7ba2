#include "trace/pack/packed_writer.h"

#include <unistd.h>

#include <algorithm>

#include "base/hash/crc32c.h"

namespace millrace::trace {
namespace {

using wire::TraceBlockHeader;
using wire::TraceBlockKind;

constexpr size_t kNamesBlockBytes = 1 << 20;
constexpr size_t kTableEntriesMax = 16384;
constexpr size_t kCompressedTableMin = 128;

template <typename Head>
void seal(Head& head) {
  head.crc32c = crc32c(std::as_bytes(std::span(&head, 1)).first(offsetof(Head, crc32c)));
}

}  // namespace

Result<PackedWriter> PackedWriter::create(File file, int64_t origin_wall_ns, uint32_t flags) {
  PackedWriter writer(std::move(file));
  wire::TraceFileHeader header{};
  header.magic = wire::kTraceFileMagic;
  header.version = wire::kTraceFileVersion;
  header.flags = flags;
  header.origin_wall_ns = origin_wall_ns;
  seal(header);
  RETURN_IF_ERROR(writer.file_.write_at(0, std::as_bytes(std::span(&header, 1))));
  writer.size_bytes_ = sizeof(header);
  return writer;
}

PackedWriter PackedWriter::resume(File file, const PackedTrace& before) {
  PackedWriter writer(std::move(file));
  writer.size_bytes_ = before.size_bytes();
  writer.blocks_ = before.blocks();
  writer.tables_ = before.tables();
  for (size_t i = 1; i < writer.tables_.names.size(); ++i) {
    writer.name_index_.emplace(writer.tables_.names[i], static_cast<NameIndex>(i));
  }
  writer.names_written_ = writer.tables_.names.size();
  writer.threads_written_ = writer.tables_.threads.size();
  writer.losses_written_ = writer.tables_.losses.size();
  writer.session_changed_.resize(writer.tables_.sessions.size());
  writer.process_changed_.resize(writer.tables_.processes.size());
  return writer;
}

NameIndex PackedWriter::add_name(std::string_view name) {
  if (name.empty()) return NameIndex{};
  const auto next = static_cast<NameIndex>(tables_.names.size());
  const auto [found, is_new] = name_index_.try_emplace(std::string(name), next);
  if (is_new) {
    tables_.names.emplace_back(name);
    tables_changed_ = true;
  }
  return found->second;
}

uint32_t PackedWriter::add_session(SessionEntry session) {
  tables_.sessions.push_back(std::move(session));
  session_changed_.push_back(true);
  tables_changed_ = true;
  return static_cast<uint32_t>(tables_.sessions.size() - 1);
}

ProcessIndex PackedWriter::add_process(ProcessEntry process) {
  tables_.processes.push_back(std::move(process));
  process_changed_.push_back(true);
  tables_changed_ = true;
  return static_cast<ProcessIndex>(tables_.processes.size() - 1);
}

ThreadIndex PackedWriter::add_thread(const Thread& thread) {
  tables_.threads.push_back(thread);
  tables_changed_ = true;
  return static_cast<ThreadIndex>(tables_.threads.size() - 1);
}

void PackedWriter::add_loss(const LostEvents& loss) {
  tables_.losses.push_back(loss);
  tables_changed_ = true;
}

SessionEntry& PackedWriter::session(uint32_t index) {
  session_changed_[index] = true;
  tables_changed_ = true;
  return tables_.sessions[index];
}

ProcessEntry& PackedWriter::process(ProcessIndex index) {
  process_changed_[static_cast<uint32_t>(index)] = true;
  tables_changed_ = true;
  return tables_.processes[static_cast<uint32_t>(index)];
}

Status PackedWriter::append_block(TraceBlockHeader head, ByteView payload) {
  head.magic = wire::kTraceBlockMagic;
  head.payload_bytes = static_cast<uint32_t>(payload.size());
  head.payload_crc32c = crc32c(payload);
  seal(head);
  // Write header and payload in one call: a killed writer leaves no header without its payload.
  BytesOut bytes;
  bytes.buffer().reserve(sizeof(head) + payload.size());
  bytes.put(head);
  bytes.append(payload);
  RETURN_IF_ERROR(file_.write_at(size_bytes_, bytes.view()));
  if (head.kind != TraceBlockKind::kIndex) blocks_.push_back({size_bytes_, head});
  size_bytes_ += bytes.size();
  return {};
}

Status PackedWriter::append_table(TraceBlockKind kind, uint32_t count, const BytesOut& payload) {
  TraceBlockHeader head{};
  head.kind = kind;
  head.count = count;
  head.raw_bytes = static_cast<uint32_t>(payload.size());
  if (payload.size() >= kCompressedTableMin) {
    std::vector<std::byte> packed;
    if (compressor_.append(payload.view(), payload.size(), packed) > 0) {
      head.flags = wire::kTraceBlockCompressed;
      return append_block(head, packed);
    }
  }
  return append_block(head, payload.view());
}

Status PackedWriter::flush_names() {
  while (names_written_ < tables_.names.size()) {
    size_t count = 0;
    size_t bytes = 0;
    while (names_written_ + count < tables_.names.size() && bytes < kNamesBlockBytes) {
      bytes += tables_.names[names_written_ + count++].size() + 8;
    }
    BytesOut payload;
    put_names(tables_.names, names_written_, count, payload);
    RETURN_IF_ERROR(append_table(TraceBlockKind::kNames, static_cast<uint32_t>(count), payload));
    names_written_ += count;
  }
  return {};
}

Status PackedWriter::flush_tables() {
  if (!tables_changed_) return {};
  RETURN_IF_ERROR(flush_names());
  const auto flush_changed = [&](TraceBlockKind kind, const std::vector<bool>& changed,
                                 const auto& entries, auto put) -> Status {
    BytesOut payload;
    uint32_t count = 0;
    for (uint32_t i = 0; i < entries.size(); ++i) {
      if (changed[i]) {
        put(i, entries[i], payload);
        ++count;
      }
      if (count == 0 || (count < kTableEntriesMax && i + 1 < entries.size())) continue;
      RETURN_IF_ERROR(append_table(kind, count, payload));
      payload.clear();
      count = 0;
    }
    return {};
  };
  RETURN_IF_ERROR(
      flush_changed(TraceBlockKind::kSessions, session_changed_, tables_.sessions, put_session));
  RETURN_IF_ERROR(
      flush_changed(TraceBlockKind::kProcesses, process_changed_, tables_.processes, put_process));
  // Rank origins follow the processes that they belong to.
  std::vector<bool> with_origin = process_changed_;
  for (size_t i = 0; i < with_origin.size(); ++i) {
    if (tables_.processes[i].rank_origin.told_by == wire::RankTeller::kNobody)
      with_origin[i] = false;
  }
  RETURN_IF_ERROR(
      flush_changed(TraceBlockKind::kRankOrigins, with_origin, tables_.processes, put_rank_origin));
  std::fill(session_changed_.begin(), session_changed_.end(), false);
  std::fill(process_changed_.begin(), process_changed_.end(), false);
  while (threads_written_ < tables_.threads.size()) {
    const size_t count = std::min(tables_.threads.size() - threads_written_, kTableEntriesMax);
    BytesOut payload;
    put_threads(tables_.threads, threads_written_, count, payload);
    RETURN_IF_ERROR(append_table(TraceBlockKind::kThreads, static_cast<uint32_t>(count), payload));
    threads_written_ += count;
  }
  if (losses_written_ < tables_.losses.size()) {
    BytesOut payload;
    const size_t count = tables_.losses.size() - losses_written_;
    for (size_t i = losses_written_; i < tables_.losses.size(); ++i)
      put_loss(tables_.losses[i], payload);
    RETURN_IF_ERROR(append_table(TraceBlockKind::kLosses, static_cast<uint32_t>(count), payload));
    losses_written_ = tables_.losses.size();
  }
  tables_changed_ = false;
  return {};
}

EventRun PackedWriter::next_run(const EventColumns& columns, size_t first) {
  const size_t left = columns.size_events() - first;
  EventRun run{first, std::min<size_t>(left, wire::kTraceBlockEventsMax)};
  if (columns.tag_begin.empty()) return run;
  const uint64_t tags_before = columns.tag_begin[first];
  while (run.count > 1 &&
         columns.tag_begin[first + run.count] - tags_before > wire::kTraceBlockTagsMax) {
    run.count /= 2;
  }
  return run;
}

void PackedWriter::encode(const EventColumns& columns, EventRun run, ProcessIndex process,
                          BlockEncoder& encoder, EncodedBlock& out) {
  out.begin_ns = ~uint64_t{0};
  out.end_ns = 0;
  for (size_t i = run.first; i < run.first + run.count; ++i) {
    out.begin_ns = std::min(out.begin_ns, columns.begin_ns[i]);
    out.end_ns = std::max(out.end_ns, columns.begin_ns[i] + columns.duration_ns[i]);
  }
  out.process = process;
  out.count = static_cast<uint32_t>(run.count);
  out.payload.clear();
  encoder.encode(columns, run, out.begin_ns, out.payload);
}

Status PackedWriter::append(const EncodedBlock& block) {
  RETURN_IF_ERROR(flush_tables());
  if (block.payload.size() > wire::kTraceBlockBytesMax) {
    return fail(Errc::kInvalidArgument, "{} events take {} bytes, over the {} of a block",
                block.count, block.payload.size(), wire::kTraceBlockBytesMax);
  }
  TraceBlockHeader head{};
  head.kind = TraceBlockKind::kEvents;
  head.count = block.count;
  head.raw_bytes = static_cast<uint32_t>(block.payload.size());
  head.process = static_cast<uint32_t>(block.process);
  head.begin_ns = block.begin_ns;
  head.end_ns = block.end_ns;
  return append_block(head, block.payload.view());
}

Status PackedWriter::append(const EventColumns& columns, ProcessIndex process) {
  RETURN_IF_ERROR(check_columns(columns));
  for (size_t first = 0; first < columns.size_events();) {
    const EventRun run = next_run(columns, first);
    encode(columns, run, process, encoder_, encoded_);
    RETURN_IF_ERROR(append(encoded_));
    first += run.count;
  }
  return {};
}

Status PackedWriter::append_commit(const Commit& commit) {
  BytesOut payload;
  put_commit(commit, payload);
  return append_table(TraceBlockKind::kCommit, static_cast<uint32_t>(commit.consumed.size()),
                      payload);
}

Status PackedWriter::append_clock(const std::vector<wire::ClockSample>& samples) {
  BytesOut payload;
  put_clock(samples, payload);
  return append_table(TraceBlockKind::kClock, static_cast<uint32_t>(samples.size()), payload);
}

void PackedWriter::truncate(uint64_t size_bytes) const {
  static_cast<void>(::ftruncate(file_.fd(), static_cast<off_t>(size_bytes)));
}

Status PackedWriter::finish() {
  RETURN_IF_ERROR(flush_tables());
  BytesOut payload;
  for (const PackedBlock& block : blocks_) {
    payload.put_varint(block.offset);
    payload.put(block.header);
  }
  wire::TraceTrailer trailer{};
  trailer.index_offset = size_bytes_;
  trailer.magic = wire::kTraceTrailerMagic;
  RETURN_IF_ERROR(
      append_table(TraceBlockKind::kIndex, static_cast<uint32_t>(blocks_.size()), payload));
  trailer.crc32c =
      crc32c(std::as_bytes(std::span(&trailer, 1)).first(offsetof(wire::TraceTrailer, crc32c)));
  RETURN_IF_ERROR(file_.write_at(size_bytes_, std::as_bytes(std::span(&trailer, 1))));
  size_bytes_ += sizeof(trailer);
  return {};
}

}  // namespace millrace::trace
