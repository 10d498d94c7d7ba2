#include "format/hdf5/rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace millrace::format {
namespace {

using Kind = Hdf5Dataset::Kind;
using Lengths = std::vector<uint64_t>;

// The most that deflate makes of a byte.
constexpr uint64_t kInflationMax = 1032;

Error ends_early(uint64_t wanted_end) {
  return fail(Errc::kIo,
              "the file ends before byte {}; it has changed since the dataset was opened: open it "
              "again",
              wanted_end);
}

Status read_run(const io::Reader& reader, uint64_t offset_bytes, MutableByteView out) {
  ASSIGN_OR_RETURN(const size_t size, reader.read_at(offset_bytes, out));
  return size == out.size() ? Status() : ends_early(offset_bytes + out.size());
}

bool spans_rows(const Hdf5Dataset& dataset) {
  return std::equal(dataset.lengths.begin() + 1, dataset.lengths.end(),
                    dataset.chunk_lengths.begin() + 1);
}

// Whether the bytes of the chunk in the file are its elements.
bool is_plain(const Hdf5Dataset& dataset, const Hdf5Chunk& chunk) {
  for (size_t i = 0; i < dataset.filters.size(); ++i) {
    if ((chunk.skipped_filters >> i & 1) == 0) return false;
  }
  return chunk.size_bytes == dataset.chunk_bytes();
}

// The part of a chunk that belongs to the wanted rows, and where it goes.
struct Overlap {
  Lengths first_in_chunk;
  Lengths first_in_rows;
  Lengths counts;
};

Overlap overlap_of(const Hdf5Dataset& dataset, const Lengths& cell, Hdf5Rows rows) {
  Overlap overlap;
  for (size_t axis = 0; axis < dataset.lengths.size(); ++axis) {
    const uint64_t chunk_begin = cell[axis] * dataset.chunk_lengths[axis];
    const uint64_t wanted_begin = axis == 0 ? rows.first : 0;
    const uint64_t wanted_end = axis == 0 ? rows.first + rows.count : dataset.lengths[axis];
    const uint64_t begin = std::max(chunk_begin, wanted_begin);
    const uint64_t end = std::min(chunk_begin + dataset.chunk_lengths[axis], wanted_end);
    overlap.first_in_chunk.push_back(begin - chunk_begin);
    overlap.first_in_rows.push_back(begin - wanted_begin);
    overlap.counts.push_back(end - begin);
  }
  return overlap;
}

// Bytes from one entry of each axis to the next.
Lengths strides_of(const Lengths& lengths, uint64_t element_bytes) {
  Lengths strides(lengths.size(), element_bytes);
  for (size_t axis = lengths.size() - 1; axis-- > 0;) {
    strides[axis] = strides[axis + 1] * lengths[axis + 1];
  }
  return strides;
}

uint64_t offset_of(const Lengths& first, const Lengths& strides) {
  uint64_t offset = 0;
  for (size_t axis = 0; axis < first.size(); ++axis) offset += first[axis] * strides[axis];
  return offset;
}

// Copies a box of elements between two arrays.
struct BoxCopy {
  Lengths counts;
  Lengths from_strides;
  Lengths to_strides;
  size_t run_axis = 0;  // from this axis on, the box is one run of bytes in both arrays

  void copy(size_t axis, const std::byte* from, std::byte* to) const {
    if (axis == run_axis) {
      std::memcpy(to, from, counts[axis] * to_strides[axis]);
      return;
    }
    for (uint64_t i = 0; i < counts[axis]; ++i) {
      copy(axis + 1, from + i * from_strides[axis], to + i * to_strides[axis]);
    }
  }
};

void copy_overlap(const Hdf5Dataset& dataset, const Overlap& overlap, ByteView chunk,
                  MutableByteView out) {
  const size_t width = data::element_bytes(dataset.type);
  BoxCopy box{overlap.counts, strides_of(dataset.chunk_lengths, width),
              strides_of(dataset.lengths, width)};
  box.run_axis = dataset.lengths.size() - 1;
  while (box.run_axis > 0 && overlap.counts[box.run_axis] == dataset.lengths[box.run_axis] &&
         overlap.counts[box.run_axis] == dataset.chunk_lengths[box.run_axis]) {
    --box.run_axis;
  }
  box.copy(0, chunk.data() + offset_of(overlap.first_in_chunk, box.from_strides),
           out.data() + offset_of(overlap.first_in_rows, box.to_strides));
}

Error damaged(const Hdf5Chunk& chunk, Error error) {
  return std::move(error).within(fmt::format("the chunk at byte {}", chunk.offset_bytes));
}

Status load_chunk(const Hdf5Dataset& dataset, const io::Reader& reader, const Hdf5Chunk& chunk,
                  ChunkCache& cache, MutableByteView out) {
  if (chunk.offset_bytes == Hdf5Chunk::kNowhere) {
    fill_with(dataset.fill, out);
    return {};
  }
  if (is_plain(dataset, chunk)) return read_run(reader, chunk.offset_bytes, out);
  if (out.size() > (chunk.size_bytes + 1) * kInflationMax) {
    return damaged(chunk, fail(Errc::kCorrupt, "its {} bytes cannot be {} elements",
                               chunk.size_bytes, out.size()));
  }
  const MutableByteView packed = cache.packed.room(chunk.size_bytes);
  RETURN_IF_ERROR(read_run(reader, chunk.offset_bytes, packed));
  const Status decoded = decode_chunk(dataset, chunk, packed, cache.spare, out);
  if (!decoded.ok()) return damaged(chunk, decoded.error());
  return {};
}

// The elements of a chunk, from the cache if this thread decoded it recently.
Result<ByteView> chunk_bytes(const Hdf5Dataset& dataset, const Hdf5Place& place, uint64_t number,
                             ChunkCache& cache) {
  ChunkKey key = place.key;
  key.chunk = number;
  const ByteView found = cache.find(key);
  if (!found.empty()) return found;
  const MutableByteView room = cache.add(key, static_cast<size_t>(dataset.chunk_bytes()));
  const Status loaded = load_chunk(dataset, *place.reader, dataset.chunks[number], cache, room);
  if (loaded.ok()) return ByteView(room);
  cache.forget(key);
  return loaded.error();
}

uint64_t number_of(const Hdf5Dataset& dataset, const Lengths& cell) {
  uint64_t number = 0;
  for (size_t axis = 0; axis < cell.size(); ++axis) {
    number = number * dataset.grid_length(axis) + cell[axis];
  }
  return number;
}

// Moves to the next cell that has a part of the rows. False after the last.
bool advance(const Hdf5Dataset& dataset, Hdf5Rows rows, Lengths& cell) {
  for (size_t axis = cell.size(); axis-- > 0;) {
    const uint64_t begin = axis == 0 ? rows.first / dataset.chunk_lengths[0] : 0;
    const uint64_t end = axis == 0 ? (rows.first + rows.count - 1) / dataset.chunk_lengths[0] + 1
                                   : dataset.grid_length(axis);
    if (++cell[axis] < end) return true;
    cell[axis] = begin;
  }
  return false;
}

Status read_chunked(const Hdf5Dataset& dataset, const Hdf5Place& place, Hdf5Rows rows,
                    MutableByteView out) {
  ChunkCache& cache = ChunkCache::of_this_thread();
  Lengths cell(dataset.lengths.size(), 0);
  cell[0] = rows.first / dataset.chunk_lengths[0];
  // A chunk that is exactly these rows is decoded in place.
  if (spans_rows(dataset) && rows.count == dataset.chunk_lengths[0] &&
      rows.first % rows.count == 0) {
    return load_chunk(dataset, *place.reader, dataset.chunks[cell[0]], cache, out);
  }
  do {
    ASSIGN_OR_RETURN(const ByteView chunk,
                     chunk_bytes(dataset, place, number_of(dataset, cell), cache));
    copy_overlap(dataset, overlap_of(dataset, cell, rows), chunk, out);
  } while (advance(dataset, rows, cell));
  return {};
}

}  // namespace

std::optional<uint64_t> direct_offset(const Hdf5Dataset& dataset, Hdf5Rows rows) {
  if (dataset.kind == Kind::kContiguous) {
    return dataset.offset_bytes + rows.first * dataset.row_bytes();
  }
  if (dataset.kind != Kind::kChunked || rows.count == 0 || !spans_rows(dataset)) {
    return std::nullopt;
  }
  const uint64_t chunk_rows = dataset.chunk_lengths[0];
  const uint64_t number = rows.first / chunk_rows;
  if ((rows.first + rows.count - 1) / chunk_rows != number) return std::nullopt;
  const Hdf5Chunk& chunk = dataset.chunks[number];
  if (chunk.offset_bytes == Hdf5Chunk::kNowhere || !is_plain(dataset, chunk)) return std::nullopt;
  return chunk.offset_bytes + rows.first % chunk_rows * dataset.row_bytes();
}

Status read_rows(const Hdf5Dataset& dataset, const Hdf5Place& place, Hdf5Rows rows,
                 MutableByteView out) {
  if (out.empty()) return {};
  if (const auto offset = direct_offset(dataset, rows)) {
    return read_run(*place.reader, *offset, out);
  }
  if (dataset.kind == Kind::kChunked) return read_chunked(dataset, place, rows, out);
  if (dataset.kind == Kind::kFill) {
    fill_with(dataset.fill, out);
    return {};
  }
  if (dataset.kind == Kind::kHeld) {
    std::memcpy(out.data(), dataset.held.data() + rows.first * dataset.row_bytes(), out.size());
    return {};
  }
  ASSIGN_OR_RETURN(const Hdf5Library* const library, hdf5_library());
  return library->read_rows(*place.path, dataset, rows, out);
}

Status check_within_file(const Hdf5Dataset& dataset, uint64_t file_bytes) {
  const auto check = [&](uint64_t offset_bytes, uint64_t size_bytes,
                         std::string_view what) -> Status {
    if (offset_bytes <= file_bytes && size_bytes <= file_bytes - offset_bytes) return {};
    return fail(Errc::kCorrupt, "{} has {} bytes at byte {}, but the file ends at {}", what,
                size_bytes, offset_bytes, file_bytes);
  };
  if (dataset.kind == Kind::kContiguous) {
    return check(dataset.offset_bytes, dataset.size_bytes(), "it");
  }
  for (const Hdf5Chunk& chunk : dataset.chunks) {
    if (chunk.offset_bytes == Hdf5Chunk::kNowhere) continue;
    RETURN_IF_ERROR(check(chunk.offset_bytes, chunk.size_bytes, "a chunk"));
  }
  return {};
}

}  // namespace millrace::format
