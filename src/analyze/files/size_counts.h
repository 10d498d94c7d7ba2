// SizeCounts: the sizes of the read calls on one file, and how often each occurred.
//
// Kept per file, because only the end of a scan shows which files are data: a file that some
// process writes is not, and that process may be read last. Merging is addition, so neither order
// nor grouping matters.
#pragma once

#include <cstdint>
#include <vector>

#include "analyze/profile/profile.h"
#include "base/bytes.h"
#include "base/numbers/log_histogram.h"
#include "base/result.h"

namespace millrace::analyze {

// How often each value occurs, sorted by value. Sorts `values`.
std::vector<CommonValue> count_values(std::vector<uint64_t>& values);

// Keeps the most common values, most common first. REQUIRES: no value occurs twice.
void keep_most(std::vector<CommonValue>& values, size_t count);

// The same for values that may occur several times.
std::vector<CommonValue> most_common(std::vector<CommonValue> values, size_t count);

class SizeCounts {
 public:
  // Replaces the counts with those of the sizes in one block, and sorts `sizes`. For a file with
  // many sizes, only the most common keep their value. The others keep only their LogHistogram bin,
  // because sizes that are all different would exhaust memory.
  void assign(std::vector<uint64_t>& sizes);

  bool empty() const { return counts_.empty(); }
  void merge(const SizeCounts& other);

  // Adds all counts to the histogram, and those that have a value to `values`.
  void add_to(LogHistogram& histogram, std::vector<CommonValue>& values) const;

  void save(std::vector<std::byte>& out) const;
  static Result<SizeCounts> load(ByteReader& in);

 private:
  // A value may occur several times. A value with kOnlyBin set is the number of a bin.
  std::vector<CommonValue> counts_;
  size_t combined_count_ = 0;  // number of entries after duplicates were last combined
};

}  // namespace millrace::analyze
