#include "bench/generate/dataset_format.h"

#include <algorithm>

#include "base/text/spelling.h"
#include "base/text/text.h"

namespace millrace::bench {
namespace {

using data::ElementType;
using data::Shape;

// Numbers of contents, so that no two arrays of a sample are equal.
constexpr uint64_t kFirstExtraField = uint64_t{1} << 32;

bool writes_text(const DatasetConfig& dataset) {
  return dataset.content == ContentKind::kText && dataset.traits().is_text;
}

// The record, or its parts if HDF5 is to have it in several datasets.
Result<std::vector<SampleArray>> record_arrays(const DatasetConfig& dataset,
                                               const ContentArray& record) {
  const uint64_t parts = dataset.num_dset_per_record;
  if (writes_text(dataset)) {
    SampleArray text{.name = "text", .content = record};
    text.content.shape = {record.shape.element_count()};
    return std::vector<SampleArray>{std::move(text)};
  }
  if (dataset.format != DatasetFormat::kHdf5 || parts <= 1) {
    return std::vector<SampleArray>{
        {.name = std::string(dataset.traits().record), .content = record}};
  }
  std::vector<uint64_t> lengths(record.shape.lengths().begin(), record.shape.lengths().end());
  if (lengths.empty() || lengths[0] % parts != 0) {
    return fail(Errc::kInvalidArgument,
                "a record of shape {} cannot be split into {} datasets; its first axis must be a "
                "multiple of dataset.hdf5.num_dset_per_record",
                record.shape.text(), parts);
  }
  lengths[0] /= parts;
  std::vector<SampleArray> arrays;
  for (uint64_t part = 0; part < parts; ++part) {
    SampleArray array{.name = fmt::format("records_{}", part), .content = record};
    array.content.field = part;
    ASSIGN_OR_RETURN(array.content.shape, Shape::make(lengths));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

struct ColumnType {
  ElementType element = ElementType::kF32;
  bool is_scalar = false;
  bool is_text = false;
};

Result<ColumnType> column_type_of(const Column& column) {
  std::string_view name = column.dtype;
  if (name == "string") return ColumnType{.element = ElementType::kU8, .is_text = true};
  if (name == "binary") return ColumnType{.element = ElementType::kU8};
  const bool is_list = name.starts_with("list<") && name.ends_with('>');
  if (is_list) name = name.substr(5, name.size() - 6);
  for (int i = 0; i <= static_cast<int>(ElementType::kBool); ++i) {
    const auto type = static_cast<ElementType>(i);
    if (data::element_name(type) != name) continue;
    return ColumnType{.element = type, .is_scalar = !is_list && column.size == 1};
  }
  return fail(Errc::kInvalidArgument,
              "column '{}' has the unknown dtype '{}'; use a type of numpy, such as float32 or "
              "int64, or string, binary or list<float32>",
              printable(column.name), printable(column.dtype));
}

Result<std::vector<SampleArray>> column_arrays(const DatasetConfig& dataset,
                                               const SampleRef& sample) {
  std::vector<SampleArray> arrays;
  for (const Column& column : dataset.columns) {
    ASSIGN_OR_RETURN(const ColumnType type, column_type_of(column));
    arrays.push_back({.name = column.name,
                      .content = {.sample = sample,
                                  .field = arrays.size(),
                                  .type = type.element,
                                  .shape = type.is_scalar ? Shape{} : Shape{column.size},
                                  .is_text = type.is_text}});
  }
  return arrays;
}

uint64_t chunk_rows_of(const DatasetConfig& dataset) {
  const double rows = static_cast<double>(dataset.chunk_size) / dataset.record_length_bytes;
  return std::max<uint64_t>(static_cast<uint64_t>(rows), 1);
}

}  // namespace

Result<std::unique_ptr<format::Format>> open_dataset_format(const DatasetConfig& dataset) {
  format::FormatOptions options;
  const bool gzip = dataset.compression == Compression::kGzip;
  options.hdf5.sample_count = dataset.num_samples_per_file;
  if (dataset.enable_chunking) options.hdf5.chunk_rows = chunk_rows_of(dataset);
  options.hdf5.chunk_dims = dataset.chunk_dims;
  options.hdf5.max_dims = dataset.max_shape;
  options.hdf5.buffer_bytes = std::min(options.hdf5.buffer_bytes, dataset.generation_buffer_size);
  if (gzip) options.hdf5.gzip_level = static_cast<int>(dataset.compression_level);
  options.parquet.row_group_rows = dataset.row_group_size;
  options.parquet.compression = name_of(dataset.compression);
  for (const Column& column : dataset.columns) {
    if (column.is_read) options.columns.push_back(column.name);
  }
  std::string_view name = name_of(dataset.format);
  if (dataset.compression != Compression::kNone &&
      !dataset.traits().compressions.has(dataset.compression)) {
    return fail(Errc::kUnsupported,
                "dataset.compression is {}, which is not available for {} files; set it to none",
                name_of(dataset.compression), name);
  }
  if (gzip && dataset.format == DatasetFormat::kTfrecord) {
    options.keeps_indexed_files = false;
    name = "tfrecord_gzip";
  }
  return format::open_format(name, options);
}

Result<std::vector<SampleArray>> sample_arrays(const DatasetConfig& dataset, const Layout& layout,
                                               const SampleRef& sample) {
  std::vector<SampleArray> arrays;
  if (dataset.format == DatasetFormat::kParquet && !dataset.columns.empty()) {
    ASSIGN_OR_RETURN(arrays, column_arrays(dataset, sample));
  } else {
    ASSIGN_OR_RETURN(arrays, record_arrays(dataset, record_of(layout, sample)));
  }
  for (size_t i = 0; i < dataset.fields.size(); ++i) {
    const ExtraField& field = dataset.fields[i];
    auto shape = Shape::make(field.dims);
    if (!shape.ok()) {
      return std::move(shape).error().within(fmt::format("dataset.fields '{}'", field.name));
    }
    arrays.push_back({.name = field.name,
                      .content = {.sample = sample,
                                  .field = kFirstExtraField + i,
                                  .type = field.type,
                                  .shape = *shape}});
  }
  return arrays;
}

LabelField label_of(const DatasetConfig& dataset) {
  const LabelField label = dataset.traits().label;
  // A field of the workload takes the place of DLIO's label.
  for (const ExtraField& field : dataset.fields) {
    if (field.name == label.name) return {};
  }
  return label;
}

}  // namespace millrace::bench
