#include "loader/pipeline/batch_work.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

namespace millrace::loader::pipeline {
namespace {

// The alignment that direct reads need, and the smallest page size.
constexpr size_t kFieldAlignmentBytes = 4096;

// Appends rows * row_bytes, page-aligned, to *size_bytes and returns where they begin; nullopt if
// the sum overflows.
std::optional<size_t> append(size_t* size_bytes, uint64_t rows, uint64_t row_bytes) {
  size_t begin = 0;
  size_t bytes = 0;
  size_t end = 0;
  if (__builtin_add_overflow(*size_bytes, kFieldAlignmentBytes - 1, &begin)) return std::nullopt;
  begin = begin / kFieldAlignmentBytes * kFieldAlignmentBytes;
  if (__builtin_mul_overflow(rows, row_bytes, &bytes)) return std::nullopt;
  if (__builtin_add_overflow(begin, bytes, &end)) return std::nullopt;
  if (end > std::numeric_limits<size_t>::max() / 4) return std::nullopt;
  *size_bytes = end;
  return begin;
}

template <typename T>
std::span<T> span_at(std::byte* memory, size_t offset_bytes, uint64_t count) {
  return {reinterpret_cast<T*>(memory + offset_bytes), count};
}

}  // namespace

Result<BatchLayout> BatchLayout::make(std::vector<data::FieldSpec> fields, uint64_t batch_size) {
  BatchLayout layout;
  layout.fields = std::move(fields);
  bool fits = true;
  const auto place = [&](uint64_t row_bytes) {
    const auto offset = append(&layout.size_bytes, batch_size, row_bytes);
    fits = fits && offset.has_value();
    return offset.value_or(0);
  };
  for (const data::FieldSpec& field : layout.fields) {
    layout.has_ragged |= field.is_ragged();
    layout.row_bytes.push_back(field.size_bytes());
    if (field.is_ragged()) {
      const auto offset = append(&layout.size_bytes, batch_size + 1, sizeof(int64_t));
      fits = fits && offset.has_value();
      layout.field_offsets.push_back(offset.value_or(0));
    } else {
      layout.field_offsets.push_back(place(field.size_bytes()));
    }
  }
  layout.samples_offset = place(sizeof(data::SampleId));
  layout.labels_offset = place(sizeof(int64_t));
  layout.is_real_offset = place(sizeof(uint8_t));
  if (!fits) {
    return fail(Errc::kInvalidArgument,
                "a batch of {} samples has more bytes than a program can address; use a smaller "
                "batch_size",
                batch_size);
  }
  return layout;
}

BatchWork::BatchWork(ScheduledBatch batch, const BatchLayout& layout, RaggedMemory* ragged)
    : batch_(std::move(batch)),
      layout_(layout),
      rows_kept_(batch_.plan.row_count),
      ragged_(layout.has_ragged
                  ? std::make_unique<RaggedWork>(layout.fields, batch_.plan.row_count, *ragged)
                  : nullptr),
      rows_left_(batch_.plan.row_count + (ragged_ ? 1 : 0)) {}

Status BatchWork::prepare(BatchMemory& memory, uint64_t rows_at_once) {
  ASSIGN_OR_RETURN(memory_, memory.take());
  if (ragged_) RETURN_IF_ERROR(ragged_->prepare());
  samples_ = span_at<data::SampleId>(memory_.get(), layout_.samples_offset, row_count());
  labels_ = span_at<int64_t>(memory_.get(), layout_.labels_offset, row_count());
  is_real_ = span_at<uint8_t>(memory_.get(), layout_.is_real_offset, row_count());
  batch_.fill(samples_, is_real_);
  rows_at_once_ = std::max<uint64_t>(rows_at_once, 1);
  claimable_rows_ = row_count();
  return {};
}

void BatchWork::fail_wholly(Error error) {
  failure_ = std::move(error);
  claimable_rows_ = 0;
  rows_left_.store(0, std::memory_order_release);
}

RowRange BatchWork::claim() {
  if (!has_unclaimed()) return {};
  const uint64_t begin = next_row_.fetch_add(rows_at_once_, std::memory_order_relaxed);
  return {begin, std::min(begin + rows_at_once_, claimable_rows_)};
}

void BatchWork::add_bad(uint64_t row, Error error) {
  const MutexLock lock(bad_rows_mutex_);
  bad_rows_.push_back({row, std::move(error)});
}

bool BatchWork::finish(uint64_t row_count) {
  // Releases the writes to these rows and acquires those of other threads.
  const uint64_t left = rows_left_.fetch_sub(row_count, std::memory_order_acq_rel) - row_count;
  if (!ragged_ || left != 1) return left == 0;
  gather();
  rows_left_.store(0, std::memory_order_release);
  return true;
}

void BatchWork::gather() {
  if (is_dropped()) return;
  for (const BadRow& bad : bad_rows_) ragged_->forget(bad.row);
  std::vector<std::span<int64_t>> all;
  for (size_t field = 0; field < layout_.fields.size(); ++field) all.push_back(offsets(field));
  // The thread must continue, even if an allocator throws.
  try {
    auto gathered = ragged_->gather(all);
    if (gathered.ok()) return;
    failure_ = std::move(gathered).error();
  } catch (const std::exception& exception) {
    failure_ = fail(Errc::kExhausted, "cannot gather a batch: {}", exception.what());
  }
  failed_sample_ = samples_[ragged_->largest_row()];
}

std::span<int64_t> BatchWork::offsets(size_t field) const {
  if (!layout_.fields[field].is_ragged()) return {};
  return span_at<int64_t>(memory_.get(), layout_.field_offsets[field], row_count() + 1);
}

void BatchWork::leave_out_bad_rows() {
  std::ranges::sort(bad_rows_, {}, &BadRow::row);
  uint64_t to = 0;
  auto bad = bad_rows_.begin();
  for (uint64_t row = 0; row < row_count(); ++row) {
    if (bad != bad_rows_.end() && bad->row == row) {
      ++bad;
      continue;
    }
    if (to != row) move_row(row, to);
    ++to;
  }
  rows_kept_ = to;
  // Bad rows have no items, so the items of the other rows are in place.
  for (size_t field = 0; field < layout_.fields.size(); ++field) {
    if (layout_.fields[field].is_ragged() && !layout_.fields[field].ragged->is_padded) {
      offsets(field)[to] = offsets(field)[row_count()];
    }
  }
}

void BatchWork::move_row(uint64_t from, uint64_t to) const {
  for (size_t field = 0; field < layout_.fields.size(); ++field) {
    if (layout_.fields[field].is_ragged()) {
      move_ragged_row(field, from, to);
      continue;
    }
    const ByteView bytes = place(field, from);
    // An empty row may have a null pointer, which memcpy does not allow.
    if (!bytes.empty()) std::memcpy(place(field, to).data(), bytes.data(), bytes.size());
  }
  samples_[to] = samples_[from];
  labels_[to] = labels_[from];
  is_real_[to] = is_real_[from];
}

void BatchWork::move_ragged_row(size_t field, uint64_t from, uint64_t to) const {
  offsets(field)[to] = offsets(field)[from];
  const data::FieldSpec& spec = layout_.fields[field];
  const size_t row_bytes = ragged_->padded_length(field) * spec.size_bytes();
  if (!spec.ragged->is_padded || row_bytes == 0) return;
  const MutableByteView values = ragged_->values(field);
  std::memcpy(values.data() + to * row_bytes, values.data() + from * row_bytes, row_bytes);
}

data::BatchField BatchWork::ragged_field(size_t field) const {
  const data::FieldSpec& spec = layout_.fields[field];
  data::BatchField made{.spec = spec, .bytes = ragged_->values(field)};
  if (spec.ragged->is_padded) {
    made.lengths = offsets(field).first(rows_kept_);
    made.padded_length = ragged_->padded_length(field);
    made.bytes = made.bytes.first(rows_kept_ * made.padded_length * spec.size_bytes());
  } else {
    made.offsets = offsets(field).first(rows_kept_ + 1);
  }
  return made;
}

data::Batch BatchWork::batch() const {
  data::Batch batch{.epoch = batch_.epoch, .index = batch_.index, .row_count = rows_kept_};
  batch.fields.reserve(layout_.fields.size());
  for (size_t i = 0; i < layout_.fields.size(); ++i) {
    const data::FieldSpec& spec = layout_.fields[i];
    if (spec.is_ragged()) {
      batch.fields.push_back(ragged_field(i));
      continue;
    }
    std::byte* const begin = memory_.get() + layout_.field_offsets[i];
    batch.fields.push_back({spec, {begin, rows_kept_ * spec.size_bytes()}});
  }
  batch.samples = samples_.first(rows_kept_);
  batch.labels = labels_.first(rows_kept_);
  batch.is_real = is_real_.first(rows_kept_);
  batch.memory = memory_;
  if (ragged_) {
    using Both = std::pair<std::shared_ptr<std::byte>, std::shared_ptr<std::byte>>;
    batch.memory = std::make_shared<Both>(memory_, ragged_->memory());
  }
  return batch;
}

}  // namespace millrace::loader::pipeline
