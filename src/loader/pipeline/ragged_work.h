// RaggedWork: the ragged fields of a batch being filled.
//
// The length of a sample is known only when it is decoded, and threads decode rows in any order. So
// the rows are first kept apart, in one buffer from which rows take room with an atomic addition,
// and are gathered when the last one is there: one copy. The buffer is as large as the largest
// batch so far. Rows beyond it get memory of their own, which happens only while batches grow.
//
// Rows may ask for room on different threads. Everything else is for one thread at a time, before
// the first row or after the last one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/base.h"
#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "data/array.h"
#include "data/buffer.h"
#include "data/decoder.h"
#include "loader/pipeline/batch_memory.h"

namespace millrace::loader::pipeline {

// The memory for the ragged fields of all batches. Thread-safe. Buffers grow with the largest batch
// so far, so that in the end every batch finds one that fits.
class RaggedMemory {
 public:
  // memory_bytes: the limit for all batches in progress.
  RaggedMemory(MemoryHooks hooks, uint64_t memory_bytes);

  // The most that the ragged fields of one batch may take, before and after gathering. Half of the
  // limit, because both exist while they are gathered.
  uint64_t batch_bytes_max() const { return memory_bytes_ / 2; }

  struct Rows {
    std::shared_ptr<std::byte> bytes;
    size_t size_bytes = 0;
  };
  Result<Rows> take_rows();
  Result<std::shared_ptr<std::byte>> take_values(size_t size_bytes);

  // A batch is complete: its rows took this much.
  void report(size_t rows_bytes);

  // How many batches may be in progress, if each takes `fixed_bytes` besides. Their size is known
  // only after some were filled, so at most twice as many as were filled before, and one more.
  uint64_t batches_allowed(uint64_t fixed_bytes) const;
  uint64_t allocated_count() const;

 private:
  // Buffers of one size, replaced by larger ones on demand.
  struct Growing {
    size_t size_bytes = 0;
    std::shared_ptr<BatchMemory> memory;  // shared with threads that take a buffer
    uint64_t allocated_before = 0;        // by replaced ones

    std::shared_ptr<BatchMemory> for_size(size_t wanted_bytes, const MemoryHooks& hooks,
                                          uint64_t memory_bytes);
    uint64_t allocated_count() const;
  };

  const MemoryHooks hooks_;
  const uint64_t memory_bytes_;
  mutable Mutex mutex_;
  Growing rows_ GUARDED_BY(mutex_);
  Growing values_ GUARDED_BY(mutex_);
  size_t rows_bytes_max_ GUARDED_BY(mutex_) = 0;
  uint64_t filled_count_ GUARDED_BY(mutex_) = 0;
};

class RaggedWork final : public data::RaggedRoom {
 public:
  // REQUIRES: fields and memory outlive this.
  RaggedWork(const std::vector<data::FieldSpec>& fields, uint64_t row_count, RaggedMemory& memory);

  Status prepare();
  Result<MutableByteView> room(size_t field, uint64_t row, uint64_t length) override;

  // Removes the items of a row, of all fields.
  void forget(uint64_t row);

  // Moves the items of all rows to their place in the batch. offsets[i] has row_count + 1 elements
  // if field i is ragged: it becomes the field's offsets, or lengths if it is padded.
  Status gather(std::span<const std::span<int64_t>> offsets);

  // After gather().
  MutableByteView values(size_t field) const { return values_[field]; }
  uint64_t padded_length(size_t field) const { return padded_lengths_[field]; }
  const std::shared_ptr<std::byte>& memory() const { return values_memory_; }
  // The row that takes the most room, to name in an error.
  uint64_t largest_row() const;

 private:
  struct Row {
    const std::byte* bytes = nullptr;
    uint64_t length = 0;
  };

  Row& row_of(size_t field, uint64_t row) { return rows_[field * row_count_ + row]; }
  const Row& row_of(size_t field, uint64_t row) const { return rows_[field * row_count_ + row]; }
  uint64_t length_sum(size_t field) const;
  uint64_t length_most(size_t field) const;
  Result<std::vector<size_t>> lay_out();
  void place(size_t field, std::span<int64_t> offsets) const;
  void place_padded(size_t field, std::span<int64_t> lengths) const;
  Error too_large(uint64_t size_bytes) const;

  const std::vector<data::FieldSpec>& fields_;
  const uint64_t row_count_;
  RaggedMemory& memory_;
  std::vector<Row> rows_;  // by field and row
  RaggedMemory::Rows room_;
  std::atomic<size_t> used_bytes_{0};
  Mutex more_mutex_;
  std::vector<data::Buffer> more_ GUARDED_BY(more_mutex_);  // of rows that room_ has no room for
  std::vector<MutableByteView> values_;
  std::vector<uint64_t> padded_lengths_;
  std::shared_ptr<std::byte> values_memory_;  // shared with the Batch
};

}  // namespace millrace::loader::pipeline
