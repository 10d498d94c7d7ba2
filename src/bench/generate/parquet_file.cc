// Parquet files: their pages are made in place, column by column, so that a row group is never in
// memory as a whole.
#include "base/text/text.h"
#include "bench/generate/file_job.h"
#include "format/parquet/codec.h"
#include "format/parquet/parquet_writer.h"
#include "format/parquet/row_fields.h"

namespace millrace::bench {
namespace {

namespace parquet = format::parquet;

constexpr uint64_t kProgressBytes = 1024 * 1024;  // between reports

// As many elements as a row has; 1 for a number.
uint64_t items_of(const SampleArray& array) { return array.content.shape.element_count(); }

std::string axes_of(const data::Shape& shape) {
  std::vector<std::string> axes;
  for (const uint64_t length : shape.lengths()) axes.push_back(std::to_string(length));
  return join(axes, ",");
}

Result<std::unique_ptr<format::ParquetWriter>> create_writer(
    const FileJob& job, const std::vector<SampleArray>& arrays) {
  const DatasetConfig& dataset = job.plan.dataset();
  std::vector<format::ParquetColumn> columns;
  for (const SampleArray& array : arrays) {
    columns.push_back(
        format::parquet_column_of(array.name, array.content.type, array.content.shape));
  }
  format::ParquetWriteOptions options{.row_group_rows = dataset.row_group_size};
  ASSIGN_OR_RETURN(options.codec, parquet::codec_named(name_of(dataset.compression)));
  ASSIGN_OR_RETURN(auto writer, format::ParquetWriter::create(*job.plan.engine, job.path,
                                                              std::move(columns), options));
  // All files must have the same columns, also if their records have different shapes.
  if (!job.plan.layout.has_equal_files()) return writer;
  for (const SampleArray& array : arrays) {
    if (array.content.shape.axis_count() < 2) continue;
    writer->set_property(parquet::shape_property(array.name), axes_of(array.content.shape));
  }
  return writer;
}

}  // namespace

Status write_parquet_file(const FileJob& job) {
  const DatasetPlan& plan = job.plan;
  ASSIGN_OR_RETURN(std::vector<SampleArray> arrays,
                   sample_arrays(plan.dataset(), plan.layout, {.file = job.file}));
  ASSIGN_OR_RETURN(const auto writer, create_writer(job, arrays));
  std::vector<uint64_t> row_items;
  for (const SampleArray& array : arrays) row_items.push_back(items_of(array));
  uint64_t made_bytes = 0;
  const auto report = [&](uint64_t least_bytes) {
    if (!job.written || made_bytes < least_bytes) return;
    job.written(made_bytes);
    made_bytes = 0;
  };
  RETURN_IF_ERROR(writer->append_made(plan.layout.samples_per_file(), row_items,
                                      [&](size_t column, uint64_t row, MutableByteView out) {
                                        ContentArray& content = arrays[column].content;
                                        content.sample.sample = row;
                                        plan.content.fill(content, 0, out);
                                        made_bytes += out.size();
                                        report(kProgressBytes);
                                      }));
  report(0);
  return writer->finish();
}

}  // namespace millrace::bench
