#include "format/parquet/parquet_writer.h"

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "format/parquet/chunk_encoder.h"

namespace millrace::format {
namespace {

using parquet::ColumnRows;
using parquet::Meaning;
using parquet::Repetition;
using parquet::SchemaElement;

constexpr std::string_view kMagic = "PAR1";
constexpr uint64_t kGroupBytes = uint64_t{64} << 20;
constexpr uint64_t kGroupRowsMax = uint64_t{1} << 22;

bool has_offsets(const ParquetColumn& column) {
  return column.kind != ParquetColumn::Kind::kNumber;
}

bool is_bytes(const ParquetColumn& column) {
  return column.kind == ParquetColumn::Kind::kBytes || column.kind == ParquetColumn::Kind::kText;
}

size_t item_bytes(const ParquetColumn& column) {
  return is_bytes(column) ? 1 : data::element_bytes(column.type);
}

Status check_columns(const std::vector<ParquetColumn>& columns) {
  std::set<std::string_view> names;
  for (const ParquetColumn& column : columns) {
    if (column.name.empty() || !names.insert(column.name).second) {
      return fail(Errc::kInvalidArgument, "the name '{}' of a column is empty or not unique",
                  printable(column.name));
    }
    if (!is_bytes(column) && column.type == data::ElementType::kBf16) {
      return fail(Errc::kInvalidArgument,
                  "Parquet has no bfloat16; store column '{}' as float32 or as uint16",
                  printable(column.name));
    }
  }
  if (!columns.empty()) return {};
  return fail(Errc::kInvalidArgument, "a Parquet file needs at least one column");
}

std::vector<SchemaElement> schema_of(const std::vector<ParquetColumn>& columns) {
  std::vector<SchemaElement> schema;
  schema.push_back(
      {.type = {}, .name = "schema", .child_count = static_cast<int32_t>(columns.size())});
  for (const ParquetColumn& column : columns) {
    const parquet::PhysicalColumn physical = parquet::physical_of(column);
    SchemaElement leaf{.type = physical.type,
                       .type_length = physical.type_length,
                       .repetition = Repetition::kRequired,
                       .name = column.name,
                       .meaning = physical.meaning};
    if (column.kind == ParquetColumn::Kind::kList) {
      schema.push_back(
          {.type = {}, .name = column.name, .child_count = 1, .meaning = Meaning::kList});
      schema.push_back(
          {.type = {}, .repetition = Repetition::kRepeated, .name = "list", .child_count = 1});
      leaf.name = "element";
    }
    schema.push_back(std::move(leaf));
  }
  return schema;
}

Status check_offsets(const ParquetColumn& column, const ParquetValues& values, uint64_t row_count) {
  const uint64_t items = values.values.size() / item_bytes(column);
  bool is_right = values.offsets.size() == row_count + 1 && values.offsets.back() <= items;
  for (size_t i = 1; i < values.offsets.size() && is_right; ++i) {
    is_right = values.offsets[i - 1] <= values.offsets[i];
  }
  if (is_right) return {};
  return fail(
      Errc::kInvalidArgument,
      "column '{}': its {} offsets do not rise from row to row, up to {} items, for {} rows",
      printable(column.name), values.offsets.size(), items, row_count);
}

}  // namespace

ParquetColumn parquet_column_of(std::string name, data::ElementType type,
                                const data::Shape& shape) {
  ParquetColumn column{.name = std::move(name), .type = type};
  if (shape.axis_count() == 0) return column;
  column.kind =
      type == data::ElementType::kU8 ? ParquetColumn::Kind::kBytes : ParquetColumn::Kind::kList;
  return column;
}

ParquetWriter::ParquetWriter(std::unique_ptr<io::Writer> writer, std::vector<ParquetColumn> columns,
                             ParquetWriteOptions options)
    : out_(std::move(writer)),
      columns_(std::move(columns)),
      options_(options),
      pending_(columns_.size()),
      encoded_(columns_.size()) {
  metadata_.schema = schema_of(columns_);
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (has_offsets(columns_[i])) pending_[i].offsets.push_back(0);
  }
  if (options_.thread_count > 1) pool_.emplace(options_.thread_count - 1);
}

Result<std::unique_ptr<ParquetWriter>> ParquetWriter::create(io::Engine& engine,
                                                             const std::filesystem::path& path,
                                                             std::vector<ParquetColumn> columns,
                                                             ParquetWriteOptions options) {
  RETURN_IF_ERROR(check_columns(columns).within(path.string()));
  ASSIGN_OR_RETURN(auto file, engine.create(path));
  std::unique_ptr<ParquetWriter> writer(
      new ParquetWriter(std::move(file), std::move(columns), options));
  RETURN_IF_ERROR(writer->out_.append(kMagic));
  return writer;
}

Status ParquetWriter::check(uint64_t row_count, std::span<const ParquetValues> columns) const {
  if (columns.size() != columns_.size()) {
    return fail(Errc::kInvalidArgument, "the batch has {} columns, but the file has {}",
                columns.size(), columns_.size());
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    const size_t size = columns[i].values.size();
    const size_t width = item_bytes(columns_[i]);
    if (!columns[i].offsets.empty() && has_offsets(columns_[i])) {
      RETURN_IF_ERROR(check_offsets(columns_[i], columns[i], row_count));
      continue;
    }
    const bool is_right = has_offsets(columns_[i]) ? size % (row_count * width) == 0
                                                   : size / width == row_count && size % width == 0;
    if (is_right) continue;
    return fail(Errc::kInvalidArgument, "column '{}' has {} bytes, which is not {} rows",
                printable(columns_[i].name), size, row_count);
  }
  return {};
}

Status ParquetWriter::append(uint64_t row_count, std::span<const ParquetValues> columns) {
  if (row_count == 0) return {};
  RETURN_IF_ERROR(check(row_count, columns));
  const uint64_t wanted = options_.row_group_rows;
  for (uint64_t row = 0; row < row_count;) {
    if (wanted != 0 && pending_rows_ == 0 && row_count - row >= wanted) {
      RETURN_IF_ERROR(write_row_group(columns, row_count, row, row + wanted));
      row += wanted;
      continue;
    }
    const uint64_t taken = wanted != 0 ? std::min(row_count - row, wanted - pending_rows_)
                                       : rows_that_fit(columns, row_count, row);
    keep(columns, row_count, row, row + taken);
    row += taken;
    if (is_full()) RETURN_IF_ERROR(flush());
  }
  return {};
}

bool ParquetWriter::is_full() const {
  if (options_.row_group_rows != 0) return pending_rows_ == options_.row_group_rows;
  return pending_bytes_ >= kGroupBytes || pending_rows_ >= kGroupRowsMax;
}

// Without a wanted number of rows: the fewest that fill the row group, or all. It depends only on
// the rows, so that batches do not change the file.
uint64_t ParquetWriter::rows_that_fit(std::span<const ParquetValues> columns, uint64_t batch_rows,
                                      uint64_t begin) const {
  const auto bytes_until = [&](uint64_t end) {
    uint64_t bytes = pending_bytes_;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const ColumnRows rows{&columns_[i], columns[i], batch_rows, begin, end};
      bytes += (rows.offset(end) - rows.offset(begin)) * rows.item_bytes();
    }
    return bytes;
  };
  uint64_t low = 1;
  uint64_t high = std::min(batch_rows - begin, kGroupRowsMax - pending_rows_);
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (bytes_until(begin + middle) >= kGroupBytes) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

void ParquetWriter::keep(std::span<const ParquetValues> columns, uint64_t batch_rows,
                         uint64_t begin, uint64_t end) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const ColumnRows rows{&columns_[i], columns[i], batch_rows, begin, end};
    const uint64_t first = rows.offset(begin);
    const uint64_t last = rows.offset(end);
    const ByteView bytes =
        columns[i].values.subspan(static_cast<size_t>(first * rows.item_bytes()),
                                  static_cast<size_t>((last - first) * rows.item_bytes()));
    Pending& pending = pending_[i];
    if (pending_rows_ == 0 && pending.values.capacity() == 0) {
      // All rows of a group, if they are as long as these: growing step by step copies them.
      const uint64_t group_bytes = bytes.size() / (end - begin) * options_.row_group_rows;
      pending.values.reserve(static_cast<size_t>(std::min(group_bytes, kGroupBytes)));
    }
    pending.values.insert(pending.values.end(), bytes.begin(), bytes.end());
    pending_bytes_ += bytes.size();
    if (!rows.has_offsets()) continue;
    const uint64_t shift = pending.offsets.back() - first;  // may wrap around
    for (uint64_t row = begin; row < end; ++row) {
      pending.offsets.push_back(rows.offset(row + 1) + shift);
    }
  }
  pending_rows_ += end - begin;
}

Status ParquetWriter::flush() {
  if (pending_rows_ == 0) return {};
  std::vector<ParquetValues> columns;
  for (const Pending& pending : pending_) columns.push_back({pending.values, pending.offsets});
  const uint64_t row_count = pending_rows_;
  pending_rows_ = 0;
  pending_bytes_ = 0;
  RETURN_IF_ERROR(write_row_group(columns, row_count, 0, row_count));
  for (Pending& pending : pending_) {
    pending.values.clear();
    if (!pending.offsets.empty()) pending.offsets.resize(1);
  }
  return {};
}

Status ParquetWriter::write_row_group(std::span<const ParquetValues> columns, uint64_t batch_rows,
                                      uint64_t begin, uint64_t end) {
  parquet::RowGroup group{.row_count = end - begin, .columns = {}};
  group.columns.resize(columns_.size());
  const auto encode = [&](size_t i, const parquet::TakeBytes& take) -> Status {
    const ColumnRows rows{&columns_[i], columns[i], batch_rows, begin, end};
    ASSIGN_OR_RETURN(group.columns[i], encode_chunk(rows, options_, take));
    return {};
  };
  const auto encode_in_memory = [&](size_t i) {
    encoded_[i].clear();
    return encode(i, [&](ByteView bytes) {
      encoded_[i] += text_of(bytes);
      return Status();
    });
  };
  if (pool_) RETURN_IF_ERROR(pool_->parallel_for(columns_.size(), encode_in_memory));
  for (size_t i = 0; i < columns_.size(); ++i) {
    const uint64_t offset_bytes = out_.size_bytes();
    RETURN_IF_ERROR(pool_ ? out_.append(encoded_[i])
                          : encode(i, [&](ByteView bytes) { return out_.append(bytes); }));
    group.columns[i].offset_bytes += offset_bytes;
  }
  metadata_.row_count += group.row_count;
  metadata_.row_groups.push_back(std::move(group));
  return {};
}

// Without a wanted number: as many as have 64 MiB.
uint64_t ParquetWriter::made_group_rows(std::span<const uint64_t> row_items) const {
  if (options_.row_group_rows != 0) return options_.row_group_rows;
  uint64_t row_bytes = 0;
  for (size_t i = 0; i < columns_.size(); ++i) row_bytes += row_items[i] * item_bytes(columns_[i]);
  return std::clamp<uint64_t>(kGroupBytes / std::max<uint64_t>(row_bytes, 1), 1, kGroupRowsMax);
}

Status ParquetWriter::append_made(uint64_t row_count, std::span<const uint64_t> row_items,
                                  const MakeRow& make) {
  if (row_items.size() != columns_.size()) {
    return fail(Errc::kInvalidArgument, "the rows have {} columns, but the file has {}",
                row_items.size(), columns_.size());
  }
  RETURN_IF_ERROR(flush());
  const uint64_t group_rows = made_group_rows(row_items);
  for (uint64_t row = 0; row < row_count; row += std::min(group_rows, row_count - row)) {
    const uint64_t end = row + std::min(group_rows, row_count - row);
    RETURN_IF_ERROR(write_made_group(row_items, make, row, end));
  }
  return {};
}

Status ParquetWriter::write_made_group(std::span<const uint64_t> row_items, const MakeRow& make,
                                       uint64_t begin, uint64_t end) {
  parquet::RowGroup group{.row_count = end - begin, .columns = {}};
  for (size_t i = 0; i < columns_.size(); ++i) {
    const uint64_t offset_bytes = out_.size_bytes();
    const parquet::MadeRows rows{
        .column = &columns_[i],
        .row_items = row_items[i],
        .begin = begin,
        .end = end,
        .make = [&make, i](uint64_t row, MutableByteView out) { make(i, row, out); }};
    ASSIGN_OR_RETURN(parquet::ColumnChunk chunk,
                     encode_made_chunk(rows, options_, page_,
                                       [&](ByteView bytes) { return out_.append(bytes); }));
    chunk.offset_bytes += offset_bytes;
    group.columns.push_back(chunk);
  }
  metadata_.row_count += group.row_count;
  metadata_.row_groups.push_back(std::move(group));
  return {};
}

void ParquetWriter::set_property(std::string key, std::string value) {
  metadata_.properties.emplace_back(std::move(key), std::move(value));
}

Status ParquetWriter::finish() {
  RETURN_IF_ERROR(flush());
  const std::string footer = encode_metadata(metadata_);
  RETURN_IF_ERROR(out_.append(footer));
  const auto length = static_cast<uint32_t>(footer.size());
  RETURN_IF_ERROR(out_.append(std::as_bytes(std::span(&length, 1))));
  RETURN_IF_ERROR(out_.append(kMagic));
  return out_.close();
}

}  // namespace millrace::format
