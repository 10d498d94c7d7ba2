#include "format/parquet/parquet_file.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/text/spelling.h"
#include "base/text/text.h"

namespace millrace::format {
namespace {

using parquet::Column;
using parquet::ColumnChunk;
using parquet::ColumnData;

constexpr std::string_view kMagic = "PAR1";
constexpr std::string_view kEncryptedMagic = "PARE";
constexpr size_t kTailBytes = 8;  // the length of the footer, and the magic
// Most footers fit, so that one read finds them.
constexpr size_t kFirstReadBytes = 64 * 1024;
// Chunks are read together if that skips less than kGapBytes, up to kStretchBytes: then there are
// also pieces of work for several threads.
constexpr uint64_t kGapBytes = 64 * 1024;
constexpr uint64_t kStretchBytes = 1024 * 1024;

Result<std::vector<std::byte>> read_exactly(const io::Reader& reader, uint64_t offset,
                                            uint64_t size) {
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  ASSIGN_OR_RETURN(const size_t there, reader.read_at(offset, bytes));
  if (there == bytes.size()) return bytes;
  return fail(Errc::kIo, "the file ends at byte {}, within its data: it has changed or was cut",
              offset + there);
}

Status check_magic(std::string_view tail) {
  if (tail == kMagic) return {};
  if (tail == kEncryptedMagic) {
    return fail(Errc::kUnsupported,
                "the file is encrypted; decrypt it with the program that wrote it");
  }
  return fail(Errc::kCorrupt, "this is not a Parquet file, or it was cut: it does not end in {}",
              kMagic);
}

Result<std::vector<std::byte>> read_footer(const io::Reader& reader, uint64_t file_bytes) {
  if (file_bytes < kMagic.size() + kTailBytes) {
    return fail(Errc::kCorrupt, "the file has {} bytes, too few for a Parquet file", file_bytes);
  }
  const uint64_t first = std::min<uint64_t>(file_bytes, kFirstReadBytes);
  ASSIGN_OR_RETURN(std::vector<std::byte> end, read_exactly(reader, file_bytes - first, first));
  RETURN_IF_ERROR(check_magic(text_of(end).substr(end.size() - kMagic.size())));
  uint32_t length = 0;
  std::memcpy(&length, end.data() + end.size() - kTailBytes, sizeof(length));
  if (length > file_bytes - kTailBytes - kMagic.size()) {
    return fail(Errc::kCorrupt, "the footer claims {} bytes in a file of {}", length, file_bytes);
  }
  if (length > end.size() - kTailBytes) {
    return read_exactly(reader, file_bytes - kTailBytes - length, length);
  }
  end.resize(end.size() - kTailBytes);
  end.erase(end.begin(), end.end() - length);
  return end;
}

// Chunks that one read covers.
struct Stretch {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::vector<size_t> places;  // into the chosen columns
};

std::vector<Stretch> stretches_of(const parquet::RowGroup& group, std::span<const Column> columns,
                                  std::span<const size_t> chosen) {
  const auto chunk = [&](size_t place) -> const ColumnChunk& {
    return group.columns[columns[chosen[place]].leaf];
  };
  std::vector<size_t> places(chosen.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::sort(places.begin(), places.end(), [&](size_t left, size_t right) {
    return chunk(left).offset_bytes < chunk(right).offset_bytes;
  });
  std::vector<Stretch> stretches;
  for (const size_t place : places) {
    const uint64_t begin = chunk(place).offset_bytes;
    const uint64_t end = begin + chunk(place).size_bytes;
    const bool fits = !stretches.empty() && begin <= stretches.back().end + kGapBytes &&
                      std::max(end, stretches.back().end) - stretches.back().begin <= kStretchBytes;
    if (!fits) stretches.push_back({.begin = begin, .end = end, .places = {}});
    stretches.back().end = std::max(stretches.back().end, end);
    stretches.back().places.push_back(place);
  }
  return stretches;
}

// The bytes of a stretch, mapped or read into `room`.
Result<ByteView> bytes_at(const io::Reader& reader, uint64_t begin, uint64_t end,
                          data::Buffer& room) {
  if (const auto view = reader.view(begin, end - begin)) return *view;
  const MutableByteView place = room.room(static_cast<size_t>(end - begin));
  ASSIGN_OR_RETURN(const size_t there, reader.read_at(begin, place));
  if (there == place.size()) return ByteView(place);
  return fail(Errc::kIo,
              "the file ends at byte {}, within its data: it has changed since it was "
              "opened; open it again",
              begin + there);
}

}  // namespace

uint64_t RowGroupColumns::memory_bytes() const {
  uint64_t bytes = 0;
  for (const ColumnData& column : columns) bytes += column.memory_bytes() + sizeof(ColumnData);
  return bytes;
}

Result<ParquetFile> ParquetFile::open(const io::Reader& reader, parquet::DecodeLimits limits) {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, reader.size_bytes());
  ASSIGN_OR_RETURN(const std::vector<std::byte> footer, read_footer(reader, file_bytes));
  ParquetFile file;
  ASSIGN_OR_RETURN(file.metadata_, parquet::parse_metadata(footer, file_bytes));
  ASSIGN_OR_RETURN(file.columns_, parquet::columns_of(file.metadata_.schema));
  file.limits_ = limits;
  for (const parquet::RowGroup& group : file.metadata_.row_groups) {
    if (group.columns.size() == file.columns_.size()) continue;
    return fail(Errc::kCorrupt, "a row group has {} columns, but the schema has {}",
                group.columns.size(), file.columns_.size());
  }
  return file;
}

uint64_t ParquetFile::memory_bytes() const {
  uint64_t bytes = sizeof(*this) + columns_.size() * (sizeof(Column) + 32);
  bytes += metadata_.schema.size() * (sizeof(parquet::SchemaElement) + 32);
  for (const parquet::RowGroup& group : metadata_.row_groups) {
    bytes += sizeof(group) + group.columns.capacity() * sizeof(ColumnChunk);
  }
  for (const auto& [key, value] : metadata_.properties) bytes += key.size() + value.size() + 64;
  return bytes;
}

Result<std::vector<size_t>> ParquetFile::choose(std::span<const std::string> names) const {
  std::vector<size_t> chosen;
  if (names.empty()) {
    chosen.resize(columns_.size());
    std::iota(chosen.begin(), chosen.end(), size_t{0});
  }
  for (const std::string& name : names) {
    const auto found = std::find_if(columns_.begin(), columns_.end(),
                                    [&](const Column& column) { return column.name == name; });
    if (found == columns_.end()) {
      std::vector<std::string> known;
      for (const Column& column : columns_) known.push_back(column.name);
      const std::string hint = did_you_mean(name, known);
      known.resize(std::min<size_t>(known.size(), 20));
      return fail(Errc::kNotFound, "there is no column '{}'{}; the columns are {}{}",
                  printable(name), hint, printable(join(known, ", ")),
                  columns_.size() > known.size() ? ", ..." : "");
    }
    chosen.push_back(static_cast<size_t>(found - columns_.begin()));
  }
  for (const size_t index : chosen) {
    const Column& column = columns_[index];
    if (!column.refusal) continue;
    return fail(Errc::kUnsupported,
                "column '{}' cannot be read: {}; choose the other columns with the option columns",
                printable(column.name), *column.refusal);
  }
  return chosen;
}

Result<RowGroupColumns> ParquetFile::read_row_group(const io::Reader& reader, uint64_t row_group,
                                                    std::span<const size_t> chosen,
                                                    ThreadPool* pool) const {
  const parquet::RowGroup& group = metadata_.row_groups[row_group];
  RowGroupColumns out{.row_count = group.row_count, .columns = {}};
  out.columns.resize(chosen.size());
  const std::vector<Stretch> stretches = stretches_of(group, columns_, chosen);
  const auto work = [&](size_t index) -> Status {
    const Stretch& stretch = stretches[index];
    // Most stretches are short: their memory is kept for the next one.
    thread_local data::Buffer kept;
    data::Buffer own;
    data::Buffer& room = stretch.end - stretch.begin <= kStretchBytes ? kept : own;
    ASSIGN_OR_RETURN(const ByteView bytes, bytes_at(reader, stretch.begin, stretch.end, room));
    for (const size_t place : stretch.places) {
      const Column& column = columns_[chosen[place]];
      const ColumnChunk& chunk = group.columns[column.leaf];
      const ByteView pages = bytes.subspan(static_cast<size_t>(chunk.offset_bytes - stretch.begin),
                                           static_cast<size_t>(chunk.size_bytes));
      auto decoded = decode_chunk(column, chunk, group.row_count, pages, limits_);
      if (!decoded.ok()) {
        return std::move(decoded).error().within(
            fmt::format("row group {}: column '{}'", row_group, printable(column.name)));
      }
      out.columns[place] = *std::move(decoded);
    }
    return {};
  };
  if (pool != nullptr && stretches.size() > 1) {
    RETURN_IF_ERROR(pool->parallel_for(stretches.size(), work));
    return out;
  }
  for (size_t i = 0; i < stretches.size(); ++i) RETURN_IF_ERROR(work(i));
  return out;
}

const std::string* ParquetFile::property(std::string_view key) const {
  for (const auto& [name, value] : metadata_.properties) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace millrace::format
