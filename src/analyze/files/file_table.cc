#include "analyze/files/file_table.h"

#include <mutex>

#include "trace/pack/bytes_out.h"

namespace millrace::analyze {
namespace {

void add_sizes(const SizeCounts& sizes, FileEntry& file) {
  if (sizes.empty()) return;
  if (file.read_sizes == nullptr) file.read_sizes = std::make_unique<SizeCounts>();
  file.read_sizes->merge(sizes);
}

}  // namespace

FileTable::FileTable(size_t name_count)
    : name_count_(name_count),
      chunks_((name_count + kChunkFiles - 1) / kChunkFiles),
      locks_(std::make_unique<SpinLock[]>(kLocks)) {}

FileTable::~FileTable() {
  for (const auto& chunk : chunks_) delete[] chunk.load();
}

FileEntry* FileTable::find(size_t name) const {
  FileEntry* chunk = chunks_[name / kChunkFiles].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : &chunk[name % kChunkFiles];
}

FileEntry& FileTable::entry(size_t name) {
  if (FileEntry* found = find(name)) return *found;
  auto fresh = std::make_unique<FileEntry[]>(kChunkFiles);
  FileEntry* expected = nullptr;
  // Another thread may have been faster.
  if (chunks_[name / kChunkFiles].compare_exchange_strong(expected, fresh.get())) {
    return fresh.release()[name % kChunkFiles];
  }
  return expected[name % kChunkFiles];
}

void FileTable::add(std::span<const FileUse> uses, uint32_t group, uint64_t bit) {
  // The entries of a million files are not in any cache. Without prefetching, this loop would take
  // most of the time of a scan.
  constexpr size_t kAhead = 8;
  constexpr size_t kLine = 64;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (i + kAhead < uses.size()) {
      const auto ahead = static_cast<size_t>(uses[i + kAhead].file);
      const FileEntry* coming = ahead < name_count_ ? find(ahead) : nullptr;
      for (size_t line = 0; coming != nullptr && line < sizeof(FileEntry); line += kLine) {
        __builtin_prefetch(reinterpret_cast<const char*>(coming) + line, 1);
      }
    }
    const FileUse& use = uses[i];
    const auto name = static_cast<size_t>(use.file);
    if (name >= name_count_) continue;
    FileEntry& file = entry(name);
    const std::lock_guard lock(locks_[name % kLocks]);
    file.totals.merge(use.totals);
    if (use.totals.bytes_read > 0) file.totals.readers |= bit;
    if (use.totals.reads + use.totals.writes > 0) file.totals.users |= bit;
    for (const Extent& extent : use.extents) file.coverage.add(extent, group);
    add_sizes(use.read_sizes, file);
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
    const SizeCounts none;
    (file.read_sizes != nullptr ? *file.read_sizes : none).save(bytes.buffer());
  });
  out.insert(out.end(), bytes.view().begin(), bytes.view().end());
}

Status FileTable::merge(ByteReader& saved) {
  ASSIGN_OR_RETURN(const uint64_t count, saved.read_varint());
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const auto name, saved.read<trace::NameIndex>());
    ASSIGN_OR_RETURN(const auto totals, saved.read<FileTotals>());
    ASSIGN_OR_RETURN(const Coverage coverage, Coverage::load(saved));
    ASSIGN_OR_RETURN(const SizeCounts read_sizes, SizeCounts::load(saved));
    if (static_cast<size_t>(name) >= name_count_) {
      return fail(Errc::kCorrupt, "a file has number {}, but there are {} names",
                  static_cast<uint32_t>(name), name_count_);
    }
    FileEntry& file = entry(static_cast<size_t>(name));
    file.totals.merge(totals);
    file.coverage.merge(coverage);
    add_sizes(read_sizes, file);
  }
  return {};
}

void FileTable::visit(const std::function<void(trace::NameIndex, const FileEntry&)>& see) const {
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const FileEntry* entries = chunks_[c].load();
    for (size_t i = 0; entries != nullptr && i < kChunkFiles; ++i) {
      if (!entries[i].totals.used()) continue;
      see(trace::NameIndex{static_cast<uint32_t>(c * kChunkFiles + i)}, entries[i]);
    }
  }
}

}  // namespace millrace::analyze
