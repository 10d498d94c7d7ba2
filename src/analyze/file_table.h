// FileTable: the totals of all files of a job, by the number of their name.
//
// Several threads may add at once. Memory is taken by the thousand files, as they are used.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "analyze/file_gather.h"
#include "analyze/file_totals.h"
#include "base/bytes.h"
#include "base/result.h"

namespace millrace::analyze {

struct FileEntry {
  FileTotals totals;
  Coverage coverage;
};

class FileTable {
 public:
  explicit FileTable(size_t name_count);

  // What a block of that group did. `bit` stands for the group.
  void add(std::span<const FileUse> uses, uint32_t group, uint64_t bit);

  void save(std::vector<std::byte>& out) const;
  Status merge(ByteReader& saved);

  // Every file that was used, in the order of their numbers.
  void visit(const std::function<void(trace::NameIndex, const FileEntry&)>& see) const;

 private:
  static constexpr size_t kChunkFiles = 1024;
  struct Chunk {
    std::mutex mutex;
    std::vector<FileEntry> entries;  // empty until one is used
  };

  FileEntry& entry(Chunk& chunk, size_t name);

  size_t name_count_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
};

}  // namespace millrace::analyze
