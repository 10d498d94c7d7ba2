// FileGatherer: groups the events of one block by file.
//
// The sequence of accesses is judged within a block: the first access to a file in a block follows
// nothing, unless the file was opened in that block. With 65,536 events per block, that affects one
// access in thousands, and it keeps blocks independent of each other.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "analyze/files/file_totals.h"
#include "analyze/files/size_counts.h"
#include "analyze/metric.h"
#include "base/numbers/log_histogram.h"

namespace millrace::analyze {

// Counts the more common values. Only the most common values of each block count: values that are
// all different would exhaust memory, and a list of common values does not need them. A value that
// is common in some blocks and rare in others is therefore undercounted, but the result does not
// depend on the order.
class CommonCounts {
 public:
  // Adds the values of one block, and sorts them.
  void add_block(std::vector<uint64_t>& values);
  void add(uint64_t value, uint64_t count) { values_[value] += count; }
  void merge(const CommonCounts& other);
  std::vector<CommonValue> most(size_t count) const;

  const std::unordered_map<uint64_t, uint64_t>& values() const { return values_; }
  void clear() { values_.clear(); }

 private:
  std::unordered_map<uint64_t, uint64_t> values_;
};

struct PatternTotals {
  LogHistogram sizes;
  CommonCounts common_sizes;
  CommonCounts common_strides;

  void clear();
  void merge(const PatternTotals& other);
};

// The I/O on one file in a block.
struct FileUse {
  trace::NameIndex file{};
  FileTotals totals;
  std::vector<Extent> extents;  // extents that were read; adjacent reads are joined
  std::vector<uint64_t> sizes;  // of reads, except for system files
  SizeCounts read_sizes;        // the same sizes, counted
  uint64_t position = 0;        // for calls without an offset
  Extent last_read;             // empty: none since the file was opened
  Extent last_write;
};

class FileGatherer {
 public:
  // The results are valid until the next call.
  void gather(const Block& block);

  std::span<FileUse> files() { return {uses_.data(), used_}; }
  const PatternTotals& reads() const { return reads_; }
  const PatternTotals& writes() const { return writes_; }

 private:
  struct Event;

  void gather_events(const Block& block);
  FileUse& use_of(trace::NameIndex file);
  void grow_table();
  void note(const Event& event, FileUse& use);
  void note_read(const Event& event, FileUse& use);
  void note_write(const Event& event, FileUse& use);
  static void note_other(const Event& event, FileUse& use);

  std::vector<FileUse> uses_;  // reused for every block
  size_t used_ = 0;
  // Open addressing: maps a file to its entry in uses_. Entries of earlier blocks have another
  // round.
  struct TableSlot {
    uint32_t round = 0;
    uint32_t use = 0;
  };
  std::vector<TableSlot> table_;
  uint32_t round_ = 0;
  // The accesses of a block in one direction, before they are counted.
  struct Accesses {
    std::vector<uint64_t> sizes;
    std::vector<uint64_t> strides;
  };
  static void note_access(Extent now, Extent& last, SmallAccess& access, Accesses& all);
  static void count(Accesses& accesses, PatternTotals& totals);

  Accesses read_accesses_;
  Accesses write_accesses_;
  PatternTotals reads_;
  PatternTotals writes_;
};

}  // namespace millrace::analyze
