#include "loader/pipeline/ragged_work.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text/units.h"
#include "data/decoded_sample.h"

namespace millrace::loader::pipeline {
namespace {

constexpr size_t kRowAlignmentBytes = 64;       // of every row, before it is gathered
constexpr size_t kValuesAlignmentBytes = 4096;  // of every field
constexpr size_t kFirstBytes = size_t{1} << 20;
// The most unused buffers to keep; fewer if half of the memory would not hold them.
constexpr uint64_t kKeptBuffers = 8;

size_t rounded_up(size_t size_bytes, size_t to) { return (size_bytes + to - 1) / to * to; }

// A quarter more than needed, so that a slightly larger batch does not need another buffer.
size_t with_reserve(size_t size_bytes) {
  return rounded_up(std::max(size_bytes + size_bytes / 4, kFirstBytes), kFirstBytes);
}

void fill(MutableByteView room, std::span<const std::byte> element) {
  if (room.empty()) return;
  if (std::ranges::all_of(element, [&](std::byte byte) { return byte == element[0]; })) {
    std::memset(room.data(), std::to_integer<int>(element[0]), room.size());
    return;
  }
  for (size_t at = 0; at < room.size(); at += element.size()) {
    std::memcpy(room.data() + at, element.data(), element.size());
  }
}

}  // namespace

// ---- RaggedMemory ----

RaggedMemory::RaggedMemory(MemoryHooks hooks, uint64_t memory_bytes)
    : hooks_(std::move(hooks)), memory_bytes_(memory_bytes) {}

std::shared_ptr<BatchMemory> RaggedMemory::Growing::for_size(size_t wanted_bytes,
                                                             const MemoryHooks& hooks,
                                                             uint64_t memory_bytes) {
  if (!memory || wanted_bytes > size_bytes) {
    allocated_before = allocated_count();
    size_bytes = with_reserve(wanted_bytes);
    const auto kept_count = std::clamp<uint64_t>(memory_bytes / 2 / size_bytes, 1, kKeptBuffers);
    memory = std::make_shared<BatchMemory>(
        BatchMemory::Options{.buffer_bytes = size_bytes, .kept_count = kept_count, .hooks = hooks});
  }
  return memory;
}

uint64_t RaggedMemory::Growing::allocated_count() const {
  return allocated_before + (memory ? memory->allocated_count() : 0);
}

Result<RaggedMemory::Rows> RaggedMemory::take_rows() {
  MutexLock lock(mutex_);
  // Ordinary memory, even if batches are pinned: only gather() reads it.
  const auto memory = rows_.for_size(rows_bytes_max_, {}, memory_bytes_);
  Rows rows{.bytes = nullptr, .size_bytes = rows_.size_bytes};
  lock.unlock();
  ASSIGN_OR_RETURN(rows.bytes, memory->take());
  return rows;
}

Result<std::shared_ptr<std::byte>> RaggedMemory::take_values(size_t size_bytes) {
  MutexLock lock(mutex_);
  const auto memory = values_.for_size(size_bytes, hooks_, memory_bytes_);
  lock.unlock();
  return memory->take();
}

void RaggedMemory::report(size_t rows_bytes) {
  const MutexLock lock(mutex_);
  rows_bytes_max_ = std::max(rows_bytes_max_, rows_bytes);
  ++filled_count_;
}

uint64_t RaggedMemory::batches_allowed(uint64_t fixed_bytes) const {
  const MutexLock lock(mutex_);
  const uint64_t batch_bytes = fixed_bytes + rows_.size_bytes + values_.size_bytes;
  const uint64_t that_fit = memory_bytes_ / std::max<uint64_t>(batch_bytes, 1);
  return std::clamp<uint64_t>(2 * filled_count_ + 1, 1, std::max<uint64_t>(that_fit, 1));
}

uint64_t RaggedMemory::allocated_count() const {
  const MutexLock lock(mutex_);
  return rows_.allocated_count() + values_.allocated_count();
}

// ---- RaggedWork ----

RaggedWork::RaggedWork(const std::vector<data::FieldSpec>& fields, uint64_t row_count,
                       RaggedMemory& memory)
    : fields_(fields),
      row_count_(row_count),
      memory_(memory),
      rows_(fields.size() * row_count),
      values_(fields.size()),
      padded_lengths_(fields.size()) {}

Status RaggedWork::prepare() {
  ASSIGN_OR_RETURN(room_, memory_.take_rows());
  return {};
}

Result<MutableByteView> RaggedWork::room(size_t field, uint64_t row, uint64_t length) {
  const data::FieldSpec& spec = fields_[field];
  ASSIGN_OR_RETURN(const uint64_t allowed,
                   data::allowed_length(spec, length, memory_.batch_bytes_max()));
  const auto size_bytes = static_cast<size_t>(allowed * spec.size_bytes());
  const size_t taken_bytes = rounded_up(size_bytes, kRowAlignmentBytes);
  const size_t begin = used_bytes_.fetch_add(taken_bytes, std::memory_order_relaxed);
  // Beyond the limit the whole batch fails, in gather(): which rows are the last to ask depends on
  // the threads.
  if (begin + taken_bytes > memory_.batch_bytes_max()) return too_large(begin + taken_bytes);
  std::byte* bytes = room_.bytes.get() + begin;
  if (begin + taken_bytes > room_.size_bytes) {
    const MutexLock lock(more_mutex_);
    bytes = more_.emplace_back().room(size_bytes).data();
  }
  row_of(field, row) = {.bytes = bytes, .length = allowed};
  return MutableByteView(bytes, size_bytes);
}

void RaggedWork::forget(uint64_t row) {
  for (size_t field = 0; field < fields_.size(); ++field) row_of(field, row) = {};
}

Error RaggedWork::too_large(uint64_t size_bytes) const {
  return fail(Errc::kExhausted,
              "the fields of varying length of {} samples take at least {}, but the memory of the "
              "prefetch allows {} per batch; use a smaller batch_size, raise the memory, or limit "
              "the length",
              row_count_, format_bytes(size_bytes), format_bytes(memory_.batch_bytes_max()));
}

uint64_t RaggedWork::largest_row() const {
  const auto bytes_of = [&](uint64_t row) {
    uint64_t sum = 0;
    for (size_t field = 0; field < fields_.size(); ++field) {
      if (fields_[field].is_ragged())
        sum += row_of(field, row).length * fields_[field].size_bytes();
    }
    return sum;
  };
  uint64_t largest = 0;
  for (uint64_t row = 1; row < row_count_; ++row) {
    if (bytes_of(row) > bytes_of(largest)) largest = row;
  }
  return largest;
}

uint64_t RaggedWork::length_sum(size_t field) const {
  uint64_t sum = 0;
  for (uint64_t row = 0; row < row_count_; ++row) sum += row_of(field, row).length;
  return sum;
}

uint64_t RaggedWork::length_most(size_t field) const {
  uint64_t most = 0;
  for (uint64_t row = 0; row < row_count_; ++row) most = std::max(most, row_of(field, row).length);
  return most;
}

// Where the values of each field begin. The last element is the size of all.
Result<std::vector<size_t>> RaggedWork::lay_out() {
  std::vector<size_t> begins;
  size_t end = 0;
  for (size_t field = 0; field < fields_.size(); ++field) {
    begins.push_back(end);
    if (!fields_[field].is_ragged()) continue;
    const data::Ragged& ragged = *fields_[field].ragged;
    uint64_t items = 0;
    if (ragged.is_padded) {
      padded_lengths_[field] = ragged.length_max != 0 ? ragged.length_max : length_most(field);
      if (__builtin_mul_overflow(padded_lengths_[field], row_count_, &items)) items = ~uint64_t{0};
    } else {
      items = length_sum(field);
    }
    uint64_t size_bytes = 0;
    if (__builtin_mul_overflow(items, fields_[field].size_bytes(), &size_bytes) ||
        size_bytes > memory_.batch_bytes_max() - std::min(end, memory_.batch_bytes_max())) {
      return too_large(size_bytes);
    }
    end = rounded_up(end + size_bytes, kValuesAlignmentBytes);
  }
  begins.push_back(end);
  return begins;
}

Status RaggedWork::gather(std::span<const std::span<int64_t>> offsets) {
  const size_t used_bytes = used_bytes_.load(std::memory_order_relaxed);
  if (used_bytes > memory_.batch_bytes_max()) return too_large(used_bytes);
  memory_.report(used_bytes);
  ASSIGN_OR_RETURN(const std::vector<size_t> begins, lay_out());
  ASSIGN_OR_RETURN(values_memory_, memory_.take_values(begins.back()));
  for (size_t field = 0; field < fields_.size(); ++field) {
    if (!fields_[field].is_ragged()) continue;
    const bool is_padded = fields_[field].ragged->is_padded;
    const uint64_t items = is_padded ? padded_lengths_[field] * row_count_ : length_sum(field);
    values_[field] = {values_memory_.get() + begins[field],
                      static_cast<size_t>(items * fields_[field].size_bytes())};
    if (is_padded) {
      place_padded(field, offsets[field]);
    } else {
      place(field, offsets[field]);
    }
  }
  room_ = {};  // for the next batch
  const MutexLock lock(more_mutex_);
  more_.clear();
  return {};
}

void RaggedWork::place(size_t field, std::span<int64_t> offsets) const {
  const size_t item_bytes = fields_[field].size_bytes();
  uint64_t at = 0;
  for (uint64_t row = 0; row < row_count_; ++row) {
    const Row& from = row_of(field, row);
    offsets[row] = static_cast<int64_t>(at);
    if (from.length * item_bytes > 0) {
      std::memcpy(values_[field].data() + at * item_bytes, from.bytes, from.length * item_bytes);
    }
    at += from.length;
  }
  offsets[row_count_] = static_cast<int64_t>(at);
}

void RaggedWork::place_padded(size_t field, std::span<int64_t> lengths) const {
  const data::FieldSpec& spec = fields_[field];
  const size_t row_bytes = padded_lengths_[field] * spec.size_bytes();
  for (uint64_t row = 0; row < row_count_; ++row) {
    const Row& from = row_of(field, row);
    const MutableByteView to = values_[field].subspan(row * row_bytes, row_bytes);
    const size_t used_bytes = from.length * spec.size_bytes();
    lengths[row] = static_cast<int64_t>(from.length);
    if (used_bytes > 0) std::memcpy(to.data(), from.bytes, used_bytes);
    fill(to.subspan(used_bytes),
         std::span(spec.ragged->padding).first(data::element_bytes(spec.type)));
  }
}

}  // namespace millrace::loader::pipeline
