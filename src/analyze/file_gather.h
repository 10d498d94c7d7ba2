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
#include "base/log_histogram.h"

namespace millrace::analyze {

// How often each value came; beyond so many different ones, new ones are not counted.
class CommonCounts {
 public:
  void add(uint64_t value) {
    if (last_count_ == nullptr || last_value_ != value) find(value);
    if (last_count_ != nullptr) ++*last_count_;
  }
  void merge(const CommonCounts& other);
  std::vector<CommonValue> most(size_t count) const;

  const std::unordered_map<uint64_t, uint64_t>& values() const { return values_; }
  void add(uint64_t value, uint64_t count);
  void clear();

 private:
  static constexpr size_t kValuesMax = 1 << 16;

  void find(uint64_t value);

  std::unordered_map<uint64_t, uint64_t> values_;
  uint64_t last_value_ = 0;
  uint64_t* last_count_ = nullptr;  // null: not counted; entries of the map stay where they are
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
  const PatternTotals& data_reads() const { return data_reads_; }

 private:
  struct Event;

  FileUse& use_of(trace::NameIndex file);
  void grow_table();
  void note(const Event& event, FileUse& use);
  void note_read(const Event& event, FileUse& use);
  void note_write(const Event& event, FileUse& use);
  static void note_other(const Event& event, FileUse& use);

  std::vector<FileUse> uses_;  // used again from block to block
  size_t used_ = 0;
  // Open addressing: the place of a file's use, of this block where the round fits.
  struct Place {
    uint32_t round = 0;
    uint32_t use = 0;
  };
  std::vector<Place> table_;
  uint32_t round_ = 0;
  PatternTotals reads_;
  PatternTotals writes_;
  PatternTotals data_reads_;
};

}  // namespace millrace::analyze
