// Any bytes may be a Parquet file. Every column of every row group is decoded, with low limits, and
// the first rows are packed and split. It is a bug if a row does not split into its fields.
#include <algorithm>
#include <cstdlib>

#include "format/packed_fields.h"
#include "format/parquet/parquet_file.h"
#include "format/parquet/row_fields.h"
#include "tests/fuzz/sample_format.h"

namespace {

using namespace millrace;

constexpr uint64_t kRowsMax = 50;
constexpr size_t kGroupsMax = 8;

void pack_rows(const format::parquet::RowFields& fields, const format::parquet::GroupRows& group) {
  data::Buffer room;
  format::SampleFields split;
  for (uint64_t row = 0; row < std::min(group.row_count, kRowsMax); ++row) {
    const auto sample = fields.pack(group, row, room);
    if (!sample.ok()) continue;
    if (!format::split_packed(*sample, split).ok()) std::abort();
    if (split.list().size() != fields.list().size()) std::abort();
  }
}

// Column by column, so that a damaged one does not hide the others.
void read_column(const format::ParquetFile& file, const io::Reader& reader,
                 const std::string& name) {
  const auto fields = format::parquet::RowFields::make(file, std::vector{name});
  if (!fields.ok()) return;
  for (size_t group = 0; group < std::min(file.row_group_count(), kGroupsMax); ++group) {
    auto columns = file.read_row_group(reader, group, fields->chosen(), nullptr);
    if (!columns.ok()) continue;
    const auto rows = fields->arrange(*std::move(columns), nullptr);
    if (rows.ok()) pack_rows(*fields, *rows);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  io::MemoryEngine engine;
  format::put(engine, "x", {reinterpret_cast<const char*>(data), size});
  const auto reader = engine.open("x");
  if (!reader.ok()) std::abort();
  const auto file =
      format::ParquetFile::open(**reader, {.page_bytes_max = 1 << 18, .chunk_bytes_max = 1 << 18});
  if (!file.ok()) {
    if (file.error().message().empty()) std::abort();
    return 0;
  }
  for (const auto& column : file->columns()) read_column(*file, **reader, column.name);
  return 0;
}
