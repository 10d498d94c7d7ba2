// BatchWork: one batch on its way: whose rows threads take some at a time, fill, and report as
// done.
//
// Rows are handed out and counted by atomic counters, so that no sample costs a lock. Different
// rows may be filled by different threads; the rest is for one thread at a time, before the first
// row is claimed or after the last one is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "data/array.h"
#include "data/batch.h"
#include "data/source.h"
#include "loader/pipeline/batch_memory.h"
#include "loader/pipeline/schedule.h"

namespace millrace::loader {

// Where in a buffer the fields of a batch lie: each from a page of its own on, rows one after
// another.
struct BatchLayout {
  std::vector<data::FieldSpec> fields;
  std::vector<size_t> field_offsets;
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
  // Each thread comes back for rows this often in a batch, so that a slow sample at the end of one
  // holds up few.
  static constexpr uint64_t kClaimsPerThread = 4;

  // REQUIRES: the layout outlives it and has room for the rows.
  BatchWork(ScheduledBatch batch, const BatchLayout& layout);

  const ScheduledBatch& scheduled() const { return batch_; }
  uint64_t row_count() const { return batch_.plan.row_count; }

  // Gets the memory and says which sample comes into which row.
  Status prepare(BatchMemory& memory, uint64_t rows_at_once);
  // The whole batch cannot be made: it then has no rows to claim and is done.
  void fail_wholly(Error error);

  // Some rows that nobody else has; none: all have been claimed.
  RowRange claim();
  // The rows that a thread gets of this batch where all get as many.
  uint64_t fair_share() const { return kClaimsPerThread * rows_at_once_; }
  bool has_unclaimed() const { return next_row_.load(std::memory_order_relaxed) < claimable_rows_; }

  // Of a row that was claimed.
  data::SampleId sample(uint64_t row) const { return samples_[row]; }
  void set_label(uint64_t row, int64_t label) const { labels_[row] = label; }
  MutableByteView place(size_t field, uint64_t row) const;
  void add_bad(uint64_t row, Error error);

  // True for the one that ends the last rows.
  bool finish(uint64_t row_count);
  bool is_done() const { return rows_left_.load(std::memory_order_acquire) == 0; }

  // Nobody wants it any more: who fills it may stop.
  void drop() { is_dropped_.store(true, std::memory_order_relaxed); }
  bool is_dropped() const { return is_dropped_.load(std::memory_order_relaxed); }

  // Once it is done.
  std::span<const data::SampleId> samples() const { return samples_; }
  const std::optional<Error>& failure() const { return failure_; }
  std::vector<BadRow>& bad_rows() { return bad_rows_; }
  // Takes the bad rows out; the rows after them move up.
  void leave_out_bad_rows();
  data::Batch batch() const;

 private:
  void move_row(uint64_t from, uint64_t to) const;

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
  std::mutex bad_rows_mutex_;
  std::vector<BadRow> bad_rows_;  // by bad_rows_mutex_ until it is done
  std::atomic<bool> is_dropped_{false};
  // Each on a line of its own: threads write the two at different times.
  alignas(64) std::atomic<uint64_t> next_row_{0};
  alignas(64) std::atomic<uint64_t> rows_left_;
};

}  // namespace millrace::loader
