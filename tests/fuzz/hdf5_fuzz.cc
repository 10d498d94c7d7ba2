// Any bytes may be the layout of a dataset, with a file behind it. The layout is what libhdf5 would
// have found, so this tests all that we do with an HDF5 file ourselves: the checks, the filters of
// chunks, and gathering rows from them. Then the bytes are split as a packed sample.
//
// The first bytes are: kind, element type, axes; length and chunk length of each; number of
// filters; kind and element size of each; offset (2), size (2) and skipped filters of each chunk.
#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "format/hdf5/rows.h"
#include "format/packed_fields.h"
#include "tests/fuzz/sample_format.h"

namespace {

using namespace millrace;
using format::Hdf5Chunk;
using format::Hdf5Dataset;
using format::Hdf5Filter;

constexpr uint64_t kBytesMax = 1 << 20;

Status take_chunks(ByteReader& reader, Hdf5Dataset& dataset) {
  uint64_t count = 1;
  for (size_t axis = 0; axis < dataset.lengths.size(); ++axis) {
    if (dataset.chunk_lengths[axis] != 0) count *= dataset.grid_length(axis);
  }
  for (uint64_t i = 0; i < std::min<uint64_t>(count, 4096); ++i) {
    ASSIGN_OR_RETURN(const auto offset, reader.read<uint16_t>());
    ASSIGN_OR_RETURN(const auto size, reader.read<uint16_t>());
    ASSIGN_OR_RETURN(const auto skipped, reader.read<uint8_t>());
    dataset.chunks.push_back({offset == 0xffff ? Hdf5Chunk::kNowhere : offset, size, skipped});
  }
  return {};
}

Result<Hdf5Dataset> take_dataset(ByteReader& reader) {
  Hdf5Dataset dataset;
  ASSIGN_OR_RETURN(const auto kind, reader.read<uint8_t>());
  ASSIGN_OR_RETURN(const auto type, reader.read<uint8_t>());
  ASSIGN_OR_RETURN(const auto axis_count, reader.read<uint8_t>());
  dataset.kind = static_cast<Hdf5Dataset::Kind>(kind % 4);  // without libhdf5
  dataset.type = static_cast<data::ElementType>(type % 13);
  for (int axis = 0; axis < axis_count % 4; ++axis) {
    ASSIGN_OR_RETURN(const auto length, reader.read<uint8_t>());
    ASSIGN_OR_RETURN(const auto chunk_length, reader.read<uint8_t>());
    dataset.lengths.push_back(length);
    dataset.chunk_lengths.push_back(chunk_length);
  }
  ASSIGN_OR_RETURN(const auto filter_count, reader.read<uint8_t>());
  bool is_compressed = false;  // at most once, as calls.cc guarantees
  for (int i = 0; i < filter_count % 5; ++i) {
    ASSIGN_OR_RETURN(const auto filter, reader.read<uint8_t>());
    ASSIGN_OR_RETURN(const auto element_bytes, reader.read<uint8_t>());
    const auto what = static_cast<Hdf5Filter::Kind>(filter % 4);
    const bool compresses = what == Hdf5Filter::Kind::kDeflate || what == Hdf5Filter::Kind::kLzf;
    if (compresses && is_compressed) continue;
    is_compressed = is_compressed || compresses;
    dataset.filters.push_back({what, std::max<uint32_t>(element_bytes, 1)});
  }
  dataset.fill.assign(data::element_bytes(dataset.type), std::byte{kind});
  if (dataset.kind == Hdf5Dataset::Kind::kChunked) RETURN_IF_ERROR(take_chunks(reader, dataset));
  if (dataset.kind == Hdf5Dataset::Kind::kHeld) {
    dataset.held.assign(std::min(dataset.size_bytes(), kBytesMax), std::byte{kind});
  }
  return dataset;
}

void read_all(const Hdf5Dataset& dataset, std::string_view file) {
  io::MemoryEngine engine;
  format::put(engine, "x", file);
  const auto reader = *engine.open("x");
  static uint64_t number = 0;
  const format::Hdf5Place place{nullptr, reader.get(), {.source = ++number}};
  std::vector<std::byte> one_by_one;
  bool all_are_read = true;
  for (uint64_t row = 0; row < dataset.row_count(); ++row) {
    std::vector<std::byte> out(dataset.row_bytes());
    const Status read = format::read_rows(dataset, place, {row, 1}, out);
    if (!read.ok() && read.error().message().empty()) std::abort();
    all_are_read = all_are_read && read.ok();
    one_by_one.insert(one_by_one.end(), out.begin(), out.end());
  }
  std::vector<std::byte> all(dataset.size_bytes());
  const Status read = format::read_rows(dataset, place, {0, dataset.row_count()}, all);
  if (read.ok() && all_are_read && all != one_by_one) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  ByteReader reader(bytes_of(content));
  const auto dataset = take_dataset(reader);
  if (dataset.ok() && format::check_dataset(*dataset).ok()) {
    const std::string_view file = content.substr(reader.position());
    const bool is_small = dataset->size_bytes() <= kBytesMax && dataset->chunk_bytes() <= kBytesMax;
    if (is_small && format::check_within_file(*dataset, file.size()).ok()) read_all(*dataset, file);
  }
  const auto hdf5 = *format::open_format("hdf5");
  format::split_exactly(*hdf5, bytes_of(content));
  return 0;
}
