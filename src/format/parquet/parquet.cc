// parquet: Apache Parquet, columns of rows in compressed chunks. A sample is a row.
//
// docs/formats/parquet.md says what is read and written.
#include <algorithm>

#include "base/text/text.h"
#include "format/formats.h"
#include "format/packed_fields.h"
#include "format/parquet/codec.h"
#include "format/parquet/parquet_source.h"
#include "format/parquet/parquet_writer.h"
#include "format/parquet/row_fields.h"

namespace millrace::format {
namespace {

// Writes samples as rows. The first one decides the columns.
class ParquetSampleWriter final : public SampleWriter {
 public:
  ParquetSampleWriter(io::Engine& engine, std::filesystem::path path, ParquetWriteOptions options)
      : engine_(engine), path_(std::move(path)), options_(options) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    if (!writer_) RETURN_IF_ERROR(begin(fields));
    if (fields.size() != columns_.size()) {
      return fail(Errc::kInvalidArgument, "sample '{}' has {} fields, but the first one had {}",
                  printable(key), fields.size(), columns_.size());
    }
    values_.clear();
    for (size_t i = 0; i < fields.size(); ++i) {
      RETURN_IF_ERROR(check(i, fields[i]).within(fmt::format("sample '{}'", printable(key))));
      values_.push_back({.values = fields[i].array.bytes});
    }
    return writer_->append(1, values_);
  }

  Status finish() override {
    if (!writer_) {
      return fail(Errc::kInvalidArgument,
                  "{}: a Parquet file needs at least one sample, which decides its columns",
                  path_.string());
    }
    for (const Shaped& column : columns_) {
      const size_t axis_count = column.lengths.size();
      if (axis_count < 2) continue;
      std::vector<std::string> axes;
      for (const uint64_t length : column.lengths) axes.push_back(std::to_string(length));
      if (column.differs) axes[0] = "-1";
      writer_->set_property(parquet::shape_property(column.spec.name), join(axes, ","));
    }
    return writer_->finish();
  }

 private:
  struct Shaped {
    ParquetColumn spec;
    std::vector<uint64_t> lengths;  // of the first sample
    bool differs = false;           // the first length, in other samples
  };

  Status begin(std::span<const Field> fields) {
    std::vector<ParquetColumn> specs;
    for (const Field& field : fields) {
      const auto lengths = field.array.shape.lengths();
      const ParquetColumn spec =
          parquet_column_of(std::string(field.name), field.array.type, field.array.shape);
      columns_.push_back({.spec = spec, .lengths = {lengths.begin(), lengths.end()}});
      specs.push_back(spec);
    }
    auto writer = ParquetWriter::create(engine_, path_, std::move(specs), options_);
    if (!writer.ok()) {
      columns_.clear();
      return std::move(writer).error();
    }
    writer_ = *std::move(writer);
    return {};
  }

  Status check(size_t index, const Field& field) {
    Shaped& column = columns_[index];
    const auto lengths = field.array.shape.lengths();
    const bool fits = field.name == column.spec.name && field.array.type == column.spec.type &&
                      lengths.size() == column.lengths.size() &&
                      (lengths.size() < 2 ||
                       std::equal(lengths.begin() + 1, lengths.end(), column.lengths.begin() + 1));
    if (!fits) {
      return fail(Errc::kInvalidArgument, "its field {} is '{}' {}, but in the first one '{}' {}",
                  index, printable(field.name),
                  data::description(field.array.type, field.array.shape),
                  printable(column.spec.name),
                  data::description(column.spec.type, *data::Shape::make(column.lengths)));
    }
    if (!lengths.empty() && lengths[0] != column.lengths[0]) column.differs = true;
    return {};
  }

  io::Engine& engine_;
  std::filesystem::path path_;
  ParquetWriteOptions options_;
  std::vector<Shaped> columns_;
  std::vector<ParquetValues> values_;
  std::unique_ptr<ParquetWriter> writer_;
};

class Parquet final : public Format {
 public:
  explicit Parquet(const FormatOptions& options) : options_(options) {}

  std::string_view name() const override { return "parquet"; }
  bool is_file_a_sample() const override { return false; }
  bool has_own_source() const override { return true; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    static_cast<void>(engine);
    return fail(Errc::kUnsupported,
                "{}: rows of Parquet files have no place of their own; use "
                "open_samples()",
                path.string());
  }

  Result<std::shared_ptr<data::SampleSource>> open(std::shared_ptr<io::Engine> engine,
                                                   const std::vector<std::string>& paths,
                                                   size_t thread_count) const override {
    ParquetSourceOptions options;
    options.columns = options_.columns;
    options.thread_count = thread_count;
    ASSIGN_OR_RETURN(auto source,
                     ParquetSource::open(std::move(engine), paths, std::move(options)));
    return std::shared_ptr<data::SampleSource>(std::move(source));
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    return split_packed(sample, fields);
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ParquetWriteOptions options{.row_group_rows = options_.parquet.row_group_rows};
    ASSIGN_OR_RETURN(options.codec,
                     parquet::codec_named(options_.parquet.compression).within(path.string()));
    return std::unique_ptr<SampleWriter>(new ParquetSampleWriter(engine, path, options));
  }

 private:
  FormatOptions options_;
};

}  // namespace

std::unique_ptr<Format> make_parquet(const FormatOptions& options) {
  return std::make_unique<Parquet>(options);
}

}  // namespace millrace::format
