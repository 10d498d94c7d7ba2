// Batch: the decoded samples of one step, field by field, in reused memory.
//
// The memory belongs to a BatchMemory of the loader. The Batch and the tensors made from it share
// it; it returns to the loader when the last of them is released.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/base.h"
#include "data/array.h"
#include "data/sample.h"

namespace millrace::data {

struct BatchField {
  FieldSpec spec;  // of one sample
  // Page-aligned. row_count rows of spec.size_bytes(); of a ragged field, items of
  // spec.size_bytes(): those of all rows in order, or, if it is padded, row_count rows of
  // padded_length items.
  MutableByteView bytes;
  // Only if ragged. Row i has the items [offsets[i], offsets[i + 1]); if it is padded, row i has
  // lengths[i] items and then padding.
  std::span<const int64_t> offsets = {};
  std::span<const int64_t> lengths = {};
  uint64_t padded_length = 0;
};

struct Batch {
  Epoch epoch{};
  uint64_t index = 0;      // within this rank's epoch
  uint64_t row_count = 0;  // including padding
  std::vector<BatchField> fields;
  // Always present, one entry per row.
  std::span<const SampleId> samples;
  std::span<const int64_t> labels;   // -1: the source knows no label
  std::span<const uint8_t> is_real;  // 0: a padding row
  std::shared_ptr<void> memory;      // holds all of the above; shared with tensors made from it
};

}  // namespace millrace::data
