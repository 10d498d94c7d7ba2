#include "format/hdf5/layout.h"

#include <limits>
#include <span>

#include "base/text/text.h"

namespace millrace::format {
namespace {

constexpr uint64_t kChunkBytesMax = std::numeric_limits<uint32_t>::max();  // HDF5's own limit

uint64_t product(std::span<const uint64_t> lengths) {
  uint64_t count = 1;
  for (const uint64_t length : lengths) count *= length;
  return count;
}

// The number of bytes, or an error if it does not fit into 63 bits.
Result<uint64_t> checked_bytes(std::span<const uint64_t> lengths, uint64_t element_bytes) {
  uint64_t bytes = element_bytes;
  bool is_empty = false;
  for (const uint64_t length : lengths) {
    is_empty = is_empty || length == 0;
    if (length != 0 && __builtin_mul_overflow(bytes, length, &bytes)) bytes = ~uint64_t{0};
    if (bytes > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return fail(Errc::kCorrupt, "its size does not fit into 63 bits");
    }
  }
  return is_empty ? 0 : bytes;
}

Status check_chunks(const Hdf5Dataset& dataset) {
  if (dataset.chunk_lengths.size() != dataset.lengths.size() || dataset.lengths.empty()) {
    return fail(Errc::kCorrupt, "its chunks have {} axes, but it has {}",
                dataset.chunk_lengths.size(), dataset.lengths.size());
  }
  uint64_t grid = 1;
  for (size_t axis = 0; axis < dataset.lengths.size(); ++axis) {
    if (dataset.chunk_lengths[axis] == 0) return fail(Errc::kCorrupt, "a chunk has no elements");
    if (__builtin_mul_overflow(grid, dataset.grid_length(axis), &grid)) {
      return fail(Errc::kCorrupt, "it has too many chunks");
    }
  }
  ASSIGN_OR_RETURN(const uint64_t bytes,
                   checked_bytes(dataset.chunk_lengths, data::element_bytes(dataset.type)));
  if (bytes > kChunkBytesMax) {
    return fail(Errc::kCorrupt, "a chunk has {} bytes; the largest possible has {}", bytes,
                kChunkBytesMax);
  }
  if (grid != dataset.chunks.size()) {
    return fail(Errc::kCorrupt, "{} of its {} chunks are known", dataset.chunks.size(), grid);
  }
  return {};
}

}  // namespace

uint64_t Hdf5Dataset::row_bytes() const {
  const size_t first = lengths.empty() ? 0 : 1;
  return product(std::span(lengths).subspan(first)) * data::element_bytes(type);
}

uint64_t Hdf5Dataset::chunk_bytes() const {
  return product(chunk_lengths) * data::element_bytes(type);
}

Status check_dataset(const Hdf5Dataset& dataset) {
  using Kind = Hdf5Dataset::Kind;
  const uint64_t width = data::element_bytes(dataset.type);
  ASSIGN_OR_RETURN(const uint64_t bytes, checked_bytes(dataset.lengths, width));
  if (dataset.kind == Kind::kChunked) RETURN_IF_ERROR(check_chunks(dataset));
  if (dataset.kind == Kind::kHeld && dataset.held.size() != bytes) {
    return fail(Errc::kCorrupt, "{} of its {} bytes are there", dataset.held.size(), bytes);
  }
  const bool needs_fill = dataset.kind == Kind::kFill || dataset.kind == Kind::kChunked;
  if (needs_fill && dataset.fill.size() != width) {
    return fail(Errc::kCorrupt, "its fill value has {} bytes instead of {}", dataset.fill.size(),
                width);
  }
  if (dataset.kind == Kind::kContiguous && dataset.offset_bytes > ~uint64_t{0} - bytes) {
    return fail(Errc::kCorrupt, "it begins at byte {}, which is too far", dataset.offset_bytes);
  }
  return {};
}

Status check_layout(const Hdf5Layout& layout) {
  for (const Hdf5Dataset& dataset : layout.datasets) {
    RETURN_IF_ERROR(
        check_dataset(dataset).within(fmt::format("dataset '{}'", printable(dataset.name))));
  }
  return {};
}

}  // namespace millrace::format
