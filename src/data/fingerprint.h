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

// Of numbers, such as weights or indexes; after those that gave `before`.
uint32_t fingerprint(std::span<const uint64_t> numbers, uint32_t before = 0);

}  // namespace millrace::data
