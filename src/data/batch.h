// Batch: the decoded samples of one step, field by field, in memory that is used again.
//
// The memory belongs to a BatchMemory that the loader hands out; whoever holds the Batch (or a
// tensor made of it) holds the memory, and it goes back to the loader when the last one lets go.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/base.h"
#include "data/array.h"
#include "data/sample.h"

namespace millrace::data {

struct BatchField {
  FieldSpec spec;         // of one sample
  MutableByteView bytes;  // row_count rows of spec.size_bytes(), page-aligned
};

struct Batch {
  Epoch epoch{};
  uint64_t index = 0;      // in the epoch, of this rank
  uint64_t row_count = 0;  // rows that are there, padding among them
  std::vector<BatchField> fields;
  // Always there, row by row.
  std::span<const SampleId> samples;
  std::span<const int64_t> labels;   // -1 where the source knows none
  std::span<const uint8_t> is_real;  // 0: a row that only pads
  std::shared_ptr<void> memory;      // what all of it lies in; shared with tensors made of it
};

}  // namespace millrace::data
