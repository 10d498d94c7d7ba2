// SizeCounts: in calls of which sizes one file was read, and how often.
//
// Kept for each file, because only the end of a scan tells which files are data: one that some
// process writes is not, and that process may be seen last. Merging is adding, so that neither
// order nor grouping matters.
#pragma once

#include <cstdint>
#include <vector>

#include "analyze/profile.h"
#include "base/bytes.h"
#include "base/log_histogram.h"
#include "base/result.h"

namespace millrace::analyze {

// How often each value is there, in the order of values. `values` is left sorted.
std::vector<CommonValue> count_values(std::vector<uint64_t>& values);

// Keeps the most common, the most common first. REQUIRES: no value is there twice.
void keep_most(std::vector<CommonValue>& values, size_t count);

// The same of values that may be there several times.
std::vector<CommonValue> most_common(std::vector<CommonValue> values, size_t count);

class SizeCounts {
 public:
  // Becomes the counts of one block's sizes, which are left sorted. Of a file with many sizes only
  // the most common keep their value, and the others only their bin of a LogHistogram: sizes that
  // are all different would fill the memory.
  void assign(std::vector<uint64_t>& sizes);

  bool empty() const { return counts_.empty(); }
  void merge(const SizeCounts& other);

  // Adds all to the histogram, and those that have a value to `values`.
  void add_to(LogHistogram& histogram, std::vector<CommonValue>& values) const;

  void save(std::vector<std::byte>& out) const;
  static Result<SizeCounts> load(ByteReader& in);

 private:
  // A value may be there several times. Those with kOnlyBin set are the number of a bin.
  std::vector<CommonValue> counts_;
  size_t combined_count_ = 0;  // how many there were when no value was there twice
};

}  // namespace millrace::analyze
