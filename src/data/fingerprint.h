// fingerprint: a number that distinguishes datasets with the same number of samples.
//
// Computed from the names and labels of the samples, in order, without their common directory. It
// does not change if the dataset is moved; it changes if a file is added, removed or renamed. It
// does not depend on the bytes. Of more than a million samples it uses evenly spaced ones, because
// a million names take about half a second.
#pragma once

#include <cstdint>
#include <span>

#include "data/source.h"

namespace millrace::data {

uint32_t fingerprint(const SampleSource& source);

// Of the samples [begin, end) alone, all of them.
uint32_t fingerprint(const SampleSource& source, SampleId begin, SampleId end);

// What the status of the files says that hold the groups.
struct FileSums {
  uint32_t sizes = 0;
  uint32_t times = 0;     // of modification
  uint32_t is_known = 1;  // 0: some group has no file with a status

  bool operator==(const FileSums&) const = default;
};

// Of every step-th group of [begin, end).
FileSums file_sums(const SampleSource& source, uint64_t begin, uint64_t end, uint64_t step);

// Of numbers, such as weights or indexes; after those that gave `before`.
uint32_t fingerprint(std::span<const uint64_t> numbers, uint32_t before = 0);

}  // namespace millrace::data
