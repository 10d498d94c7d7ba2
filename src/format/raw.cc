// raw: plain bytes. A sample is a file, or a record of fixed length in a file.
#include "format/appender.h"
#include "format/formats.h"

namespace millrace::format {
namespace {

class RawWriter final : public SampleWriter {
 public:
  RawWriter(std::unique_ptr<io::Writer> writer, uint64_t record_bytes)
      : out_(std::move(writer)), record_bytes_(record_bytes) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    if (fields.size() != 1) {
      return fail(Errc::kInvalidArgument, "a raw sample is one array, but '{}' has {}", key,
                  fields.size());
    }
    const ByteView bytes = fields[0].array.bytes;
    if (record_bytes_ == 0 && ++count_ > 1) {
      return fail(Errc::kInvalidArgument,
                  "a raw file without record_bytes holds one sample; set record_bytes to write "
                  "'{}' as well",
                  key);
    }
    if (record_bytes_ != 0 && bytes.size() != record_bytes_) {
      return fail(Errc::kInvalidArgument, "sample '{}' has {} bytes, but records have {}", key,
                  bytes.size(), record_bytes_);
    }
    return out_.append(bytes);
  }

  Status finish() override { return out_.close(); }

 private:
  Appender out_;
  uint64_t record_bytes_;
  uint64_t count_ = 0;
};

class Raw final : public Format {
 public:
  explicit Raw(const FormatOptions& options) : record_bytes_(options.record_bytes) {}

  std::string_view name() const override { return "raw"; }
  bool is_file_a_sample() const override { return record_bytes_ == 0; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    if (record_bytes_ == 0) return data::FileSamples{};
    ASSIGN_OR_RETURN(const auto reader, engine.open(path));
    ASSIGN_OR_RETURN(const uint64_t size, reader->size_bytes());
    if (size % record_bytes_ != 0) {
      return fail(Errc::kCorrupt,
                  "the file has {} bytes, which is not a multiple of the record length {}: {} are "
                  "left over",
                  size, record_bytes_, size % record_bytes_);
    }
    return data::FileSamples{.kind = data::FileSamples::Kind::kRecords,
                             .record_bytes = record_bytes_,
                             .record_count = size / record_bytes_,
                             .stamp = {.size_bytes = size}};
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    fields.add(bytes_field("data", sample));
    return {};
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto writer, engine.create(path));
    return std::unique_ptr<SampleWriter>(new RawWriter(std::move(writer), record_bytes_));
  }

 private:
  uint64_t record_bytes_;
};

}  // namespace

std::unique_ptr<Format> make_raw(const FormatOptions& options) {
  return std::make_unique<Raw>(options);
}

}  // namespace millrace::format
