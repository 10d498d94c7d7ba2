#include "analyze/file_table.h"

#include "trace/bytes_out.h"

namespace millrace::analyze {

FileTable::FileTable(size_t name_count) : name_count_(name_count) {
  for (size_t i = 0; i < name_count; i += kChunkFiles) chunks_.push_back(std::make_unique<Chunk>());
}

FileEntry& FileTable::entry(Chunk& chunk, size_t name) {
  if (chunk.entries.empty()) chunk.entries.resize(kChunkFiles);
  return chunk.entries[name % kChunkFiles];
}

void FileTable::add(std::span<const FileUse> uses, uint32_t group, uint64_t bit) {
  for (const FileUse& use : uses) {
    const auto name = static_cast<size_t>(use.file);
    if (name >= name_count_) continue;
    Chunk& chunk = *chunks_[name / kChunkFiles];
    const std::lock_guard lock(chunk.mutex);
    FileEntry& file = entry(chunk, name);
    file.totals.merge(use.totals);
    if (use.totals.bytes_read > 0) file.totals.readers |= bit;
    if (use.totals.reads + use.totals.writes > 0) file.totals.users |= bit;
    for (const Extent& extent : use.extents) file.coverage.add(extent, group);
  }
}

void FileTable::save(std::vector<std::byte>& out) const {
  trace::BytesOut bytes;
  uint64_t count = 0;
  visit([&](trace::NameIndex, const FileEntry&) { ++count; });
  bytes.put_varint(count);
  visit([&](trace::NameIndex name, const FileEntry& file) {
    bytes.put(name);
    bytes.put(file.totals);
    file.coverage.save(bytes.buffer());
  });
  out.insert(out.end(), bytes.view().begin(), bytes.view().end());
}

Status FileTable::merge(ByteReader& saved) {
  ASSIGN_OR_RETURN(const uint64_t count, saved.read_varint());
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const auto name, saved.read<trace::NameIndex>());
    ASSIGN_OR_RETURN(const auto totals, saved.read<FileTotals>());
    ASSIGN_OR_RETURN(const Coverage coverage, Coverage::load(saved));
    if (static_cast<size_t>(name) >= name_count_) {
      return fail(Errc::kCorrupt, "a file has number {}, but there are {} names",
                  static_cast<uint32_t>(name), name_count_);
    }
    FileEntry& file =
        entry(*chunks_[static_cast<size_t>(name) / kChunkFiles], static_cast<size_t>(name));
    file.totals.merge(totals);
    file.coverage.merge(coverage);
  }
  return {};
}

void FileTable::visit(const std::function<void(trace::NameIndex, const FileEntry&)>& see) const {
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const std::vector<FileEntry>& entries = chunks_[c]->entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!entries[i].totals.used()) continue;
      see(trace::NameIndex{static_cast<uint32_t>(c * kChunkFiles + i)}, entries[i]);
    }
  }
}

}  // namespace millrace::analyze
