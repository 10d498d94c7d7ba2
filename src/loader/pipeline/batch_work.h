// BatchWork: a batch being filled; threads claim its rows in groups.
//
// Rows are claimed and counted with atomic counters, so that no sample takes a lock. Different
// threads may fill different rows. Everything else is for one thread at a time, before the first
// row is claimed or after the last one is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/concurrency/mutex.h"
#include "base/result.h"
#include "data/array.h"
#include "data/batch.h"
#include "data/decoder.h"
#include "data/source.h"
#include "loader/pipeline/batch_memory.h"
#include "loader/pipeline/ragged_work.h"
#include "loader/pipeline/schedule.h"

namespace millrace::loader::pipeline {

// Where the fields of a batch are in a buffer. Each begins at a page; its rows are contiguous. A
// ragged field has its offsets there, one more than rows; its items are elsewhere (ragged_work.h).
struct BatchLayout {
  std::vector<data::FieldSpec> fields;
  std::vector<size_t> field_offsets;
  std::vector<size_t> row_bytes;  // of each field; of a ragged one: of an item
  bool has_ragged = false;
  size_t samples_offset = 0;
  size_t labels_offset = 0;
  size_t is_real_offset = 0;
  size_t size_bytes = 0;

  static Result<BatchLayout> make(std::vector<data::FieldSpec> fields, uint64_t batch_size);
};

struct RowRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool is_empty() const { return begin >= end; }
};

struct BadRow {
  uint64_t row = 0;
  Error error;
};

class BatchWork {
 public:
  // How often each thread claims rows of a batch. Several small claims, so that a slow sample
  // delays few rows.
  static constexpr uint64_t kClaimsPerThread = 4;

  // REQUIRES: the layout outlives this and has room for the rows; so does `ragged`, which is null
  // if the layout has no ragged fields.
  BatchWork(ScheduledBatch batch, const BatchLayout& layout, RaggedMemory* ragged = nullptr);

  const ScheduledBatch& scheduled() const { return batch_; }
  uint64_t row_count() const { return batch_.plan.row_count; }
  bool has_ragged() const { return ragged_ != nullptr; }

  // Takes memory and assigns samples to rows.
  Status prepare(BatchMemory& memory, uint64_t rows_at_once);
  // Fails the whole batch: it then has no rows to claim and is done.
  void fail_wholly(Error error);

  // Some rows that nobody else has claimed; empty: none are left.
  RowRange claim();
  // The rows of this batch per thread, if all threads get equally many.
  uint64_t fair_share() const { return kClaimsPerThread * rows_at_once_; }
  bool has_unclaimed() const { return next_row_.load(std::memory_order_relaxed) < claimable_rows_; }

  // REQUIRES: the row was claimed.
  data::SampleId sample(uint64_t row) const { return samples_[row]; }
  void set_label(uint64_t row, int64_t label) const { labels_[row] = label; }
  // REQUIRES: the field is not ragged.
  MutableByteView place(size_t field, uint64_t row) const {
    const size_t row_bytes = layout_.row_bytes[field];
    return {memory_.get() + layout_.field_offsets[field] + row * row_bytes, row_bytes};
  }
  data::Output output(size_t field, uint64_t row) const {
    return layout_.fields[field].is_ragged() ? data::Output(*ragged_, field, row)
                                             : data::Output(place(field, row));
  }
  void add_bad(uint64_t row, Error error);

  // True for the caller that finishes the last rows. It gathers the ragged fields.
  bool finish(uint64_t row_count);
  bool is_done() const { return rows_left_.load(std::memory_order_acquire) == 0; }

  // Nobody needs the batch any more: threads that fill it may stop.
  void drop() { is_dropped_.store(true, std::memory_order_relaxed); }
  bool is_dropped() const { return is_dropped_.load(std::memory_order_relaxed); }

  // REQUIRES: is_done()
  std::span<const data::SampleId> samples() const { return samples_; }
  const std::optional<Error>& failure() const { return failure_; }
  // The sample to name in the failure, if it is the fault of one.
  std::optional<data::SampleId> failed_sample() const { return failed_sample_; }
  std::vector<BadRow>& bad_rows() { return bad_rows_; }
  // Removes the bad rows and moves up the rows after them.
  void leave_out_bad_rows();
  data::Batch batch() const;

 private:
  void gather();
  std::span<int64_t> offsets(size_t field) const;
  void move_row(uint64_t from, uint64_t to) const;
  void move_ragged_row(size_t field, uint64_t from, uint64_t to) const;
  data::BatchField ragged_field(size_t field) const;

  const ScheduledBatch batch_;
  const BatchLayout& layout_;
  std::shared_ptr<std::byte> memory_;  // shared with the Batch, and so with the consumer
  std::span<data::SampleId> samples_;
  std::span<int64_t> labels_;
  std::span<uint8_t> is_real_;
  uint64_t rows_kept_ = 0;
  uint64_t claimable_rows_ = 0;
  uint64_t rows_at_once_ = 1;
  std::optional<Error> failure_;
  std::optional<data::SampleId> failed_sample_;
  std::unique_ptr<RaggedWork> ragged_;  // null: no field is ragged
  Mutex bad_rows_mutex_;
  std::vector<BadRow> bad_rows_;  // guarded by bad_rows_mutex_ until is_done()
  std::atomic<bool> is_dropped_{false};
  // On separate cache lines, because threads write the two at different times.
  alignas(64) std::atomic<uint64_t> next_row_{0};
  alignas(64) std::atomic<uint64_t> rows_left_;  // plus one until ragged fields are gathered
};

}  // namespace millrace::loader::pipeline
