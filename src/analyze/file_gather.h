// FileGatherer: sorts the events of one block by file.
//
// What follows what is judged within a block: the first access to a file in a block follows
// nothing, unless its opening is there too. With 65,536 events a block that is one access in
// thousands, and it keeps blocks independent of each other.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "analyze/file_totals.h"
#include "analyze/metric.h"
#include "analyze/size_counts.h"
#include "base/log_histogram.h"

namespace millrace::analyze {

// How often each of the more common values came. Of a block only the most common count: values that
// are all different would fill the memory, and no list of common ones needs them. A value that is
// common in some blocks and rare in others is therefore counted too low, the same in any order.
class CommonCounts {
 public:
  // The values of one block, which are left sorted.
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

// What the events of a block did to one file.
struct FileUse {
  trace::NameIndex file{};
  FileTotals totals;
  std::vector<Extent> extents;  // that were read, where they join into one only one
  std::vector<uint64_t> sizes;  // of reads, unless it is a file of the system
  SizeCounts read_sizes;        // the same, counted
  uint64_t position = 0;        // for calls without an offset
  Extent last_read;             // empty: none since the opening
  Extent last_write;
};

class FileGatherer {
 public:
  // The result lives until the next call.
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

  std::vector<FileUse> uses_;  // used again from block to block
  size_t used_ = 0;
  // Open addressing: the place of a file's use, of this block where the round fits.
  struct TableSlot {
    uint32_t round = 0;
    uint32_t use = 0;
  };
  std::vector<TableSlot> table_;
  uint32_t round_ = 0;
  // A block's accesses of one direction, before they are counted.
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
