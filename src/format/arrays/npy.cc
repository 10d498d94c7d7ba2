#include "format/arrays/npy.h"

#include <optional>

#include "format/appender.h"
#include "format/formats.h"

namespace millrace::format {
namespace {

// Space for the header of a file of rows, whose count is known only at the end. A multiple of 64,
// as in numpy; any number of rows with eight axes fits.
constexpr size_t kRowsHeaderBytes = 320;

class NpyWriter final : public SampleWriter {
 public:
  explicit NpyWriter(std::unique_ptr<io::Writer> writer) : out_(std::move(writer)) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    if (fields.size() != 1) {
      return fail(Errc::kInvalidArgument,
                  "an npy sample is one array, but '{}' has {}; write npz instead", key,
                  fields.size());
    }
    if (++count_ > 1) {
      return fail(Errc::kInvalidArgument,
                  "an npy file without rows holds one sample; '{}' needs its own file", key);
    }
    ASSIGN_OR_RETURN(const std::string header,
                     npy_header(fields[0].array.type, fields[0].array.shape));
    RETURN_IF_ERROR(out_.append(header));
    return out_.append(fields[0].array.bytes);
  }

  Status finish() override { return out_.close(); }

 private:
  Appender out_;
  uint64_t count_ = 0;
};

class NpyRowsWriter final : public SampleWriter {
 public:
  explicit NpyRowsWriter(std::unique_ptr<io::Writer> writer) : out_(std::move(writer)) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    if (fields.size() != 1) {
      return fail(Errc::kInvalidArgument, "an npy row is one array, but '{}' has {}", key,
                  fields.size());
    }
    const data::ArrayView& array = fields[0].array;
    if (count_ == 0) {
      type_ = array.type;
      shape_ = array.shape;
      RETURN_IF_ERROR(out_.pad(kRowsHeaderBytes));
    } else if (array.type != type_ || array.shape != shape_) {
      return fail(Errc::kInvalidArgument, "sample '{}' is {} of {}, but the rows are {} of {}", key,
                  array.shape.text(), data::element_name(array.type), shape_.text(),
                  data::element_name(type_));
    }
    ++count_;
    return out_.append(array.bytes);
  }

  Status finish() override {
    std::vector<uint64_t> lengths = {count_};
    lengths.insert(lengths.end(), shape_.lengths().begin(), shape_.lengths().end());
    ASSIGN_OR_RETURN(const data::Shape shape, data::Shape::make(lengths));
    ASSIGN_OR_RETURN(std::string header, npy_header(type_, shape));
    if (count_ == 0) {
      RETURN_IF_ERROR(out_.append(header));
      return out_.close();
    }
    // Pad with spaces before the newline, so that the text ends where the rows begin.
    header.pop_back();
    header.resize(kRowsHeaderBytes - 1, ' ');
    header += '\n';
    const size_t text_bytes = kRowsHeaderBytes - 10;
    header[8] = static_cast<char>(text_bytes & 0xff);
    header[9] = static_cast<char>(text_bytes >> 8);
    RETURN_IF_ERROR(out_.overwrite(0, bytes_of(header)));
    return out_.close();
  }

 private:
  Appender out_;
  data::ElementType type_ = data::ElementType::kU8;
  data::Shape shape_;
  uint64_t count_ = 0;
};

Result<NpyHeader> read_header(const io::Reader& reader) {
  std::vector<std::byte> bytes(kNpyPrefixBytes);
  ASSIGN_OR_RETURN(const size_t prefix, reader.read_at(0, bytes));
  ASSIGN_OR_RETURN(const uint64_t size, npy_header_bytes(ByteView(bytes).first(prefix)));
  bytes.resize(static_cast<size_t>(size));
  ASSIGN_OR_RETURN(const size_t there, reader.read_at(0, bytes));
  return parse_npy_header(ByteView(bytes).first(there));
}

// The first axis is the number of samples; the others are the shape of a sample.
Result<data::FileSamples> index_rows(const io::Reader& reader) {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, reader.size_bytes());
  ASSIGN_OR_RETURN(const NpyHeader header, read_header(reader));
  const auto lengths = header.shape.lengths();
  if (lengths.empty()) {
    return fail(Errc::kInvalidArgument,
                "the array is a single number; rows need at least one axis");
  }
  if (file_bytes < header.size_bytes || header.data_bytes() != file_bytes - header.size_bytes) {
    return fail(Errc::kCorrupt,
                "an array of shape {} of {} takes {} bytes with its header, but "
                "the file has {}",
                header.shape.text(), data::element_name(header.type),
                header.size_bytes + header.data_bytes(), file_bytes);
  }
  ASSIGN_OR_RETURN(const data::Shape row, data::Shape::make(lengths.subspan(1)));
  data::FieldSpec element{.name = "data", .type = header.type, .shape = row};
  const uint64_t row_bytes = element.size_bytes();
  if (row_bytes == 0) {
    return fail(Errc::kInvalidArgument, "an array of shape {} has rows without elements",
                header.shape.text());
  }
  return data::FileSamples{.kind = data::FileSamples::Kind::kRecords,
                           .offset_bytes = header.size_bytes,
                           .record_bytes = row_bytes,
                           .record_count = lengths[0],
                           .element = std::move(element),
                           .stamp = {.size_bytes = file_bytes}};
}

class Npy final : public Format {
 public:
  explicit Npy(const FormatOptions& options) : rows_(options.rows) {}

  std::string_view name() const override { return "npy"; }
  bool is_file_a_sample() const override { return !rows_; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    if (!rows_) return data::FileSamples{};
    ASSIGN_OR_RETURN(const auto reader, engine.open(path));
    return index_rows(*reader);
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    if (rows_) {
      fields.add(bytes_field("data", sample));
      return {};
    }
    ASSIGN_OR_RETURN(const data::ArrayView array, parse_npy(sample));
    fields.add({.name = "data", .array = array});
    return {};
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto writer, engine.create(path));
    if (rows_) return std::unique_ptr<SampleWriter>(new NpyRowsWriter(std::move(writer)));
    return std::unique_ptr<SampleWriter>(new NpyWriter(std::move(writer)));
  }

 private:
  bool rows_;
};

}  // namespace

std::unique_ptr<Format> make_npy(const FormatOptions& options) {
  return std::make_unique<Npy>(options);
}

}  // namespace millrace::format
