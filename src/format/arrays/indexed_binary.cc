// indexed_binary and mmap_indexed_binary: DLIO's file of samples with two files of their places.
//
// The data file is the samples' bytes. Next to it, `NAME.off.idx` has the offset of each sample and
// `NAME.sz.idx` its length, as little-endian integers of 64 bits. The two formats differ only in
// how DLIO reads them. Samples may overlap: if a file is larger than DLIO's generation buffer, its
// offsets begin at 0 again for each buffer.
#include <cstring>

#include "base/text/text.h"
#include "format/appender.h"
#include "format/file_pieces.h"
#include "format/formats.h"

namespace millrace::format {
namespace {

std::filesystem::path with_suffix(const std::filesystem::path& path, std::string_view suffix) {
  return fmt::format("{}{}", path.string(), suffix);
}

constexpr std::string_view kOffsetsSuffix = ".off.idx";
constexpr std::string_view kSizesSuffix = ".sz.idx";

// A file of 64-bit integers.
struct Integers {
  std::unique_ptr<io::Reader> reader;
  std::string name;  // the end of the file's name, for errors
  uint64_t count = 0;

  static Result<Integers> open(io::Engine& engine, const std::filesystem::path& path,
                               std::string_view suffix) {
    Integers integers{.name = std::string(suffix)};
    ASSIGN_OR_RETURN(integers.reader, engine.open(with_suffix(path, suffix)));
    ASSIGN_OR_RETURN(const uint64_t size, integers.reader->size_bytes());
    if (size % sizeof(uint64_t) != 0) {
      return fail(Errc::kCorrupt, "its {} file has {} bytes, which is not a multiple of 8", suffix,
                  size);
    }
    integers.count = size / sizeof(uint64_t);
    return integers;
  }

  // REQUIRES: first + out.size() <= count.
  Status read(uint64_t first, std::span<uint64_t> out) const {
    const auto bytes = std::as_writable_bytes(out);
    ASSIGN_OR_RETURN(const size_t there, reader->read_at(first * sizeof(uint64_t), bytes));
    if (there == bytes.size()) return {};
    return fail(Errc::kIo, "its {} file shrank while it was read", name);
  }
};

// Collects the places of samples. As long as they have one length and follow each other, only their
// number is kept: DLIO's largest dataset has 277 million.
class Places {
 public:
  explicit Places(uint64_t data_bytes) : data_bytes_(data_bytes) {}

  Status add(uint64_t offset, uint64_t size) {
    if (offset > data_bytes_ || size > data_bytes_ - offset) {
      return fail(Errc::kCorrupt, "sample {} has {} bytes at byte {}, but the data file ends at {}",
                  count_, size, offset, data_bytes_);
    }
    if (count_ == 0) first_ = {.offset_bytes = offset, .size_bytes = size};
    const bool is_next =
        size == first_.size_bytes && size > 0 && offset == first_.offset_bytes + count_ * size;
    if (is_regular_ && !is_next) list_all();
    if (!is_regular_) spans_.push_back({.offset_bytes = offset, .size_bytes = size});
    ++count_;
    return {};
  }

  data::FileSamples finish() {
    data::FileSamples samples{.kind = data::FileSamples::Kind::kListed,
                              .stamp = {.size_bytes = data_bytes_}};
    if (is_regular_ && count_ > 0) {
      samples.kind = data::FileSamples::Kind::kRecords;
      samples.offset_bytes = first_.offset_bytes;
      samples.record_bytes = first_.size_bytes;
      samples.record_count = count_;
    }
    samples.spans = std::move(spans_);
    return samples;
  }

 private:
  void list_all() {
    is_regular_ = false;
    for (uint64_t i = 0; i < count_; ++i) {
      spans_.push_back({.offset_bytes = first_.offset_bytes + i * first_.size_bytes,
                        .size_bytes = first_.size_bytes});
    }
  }

  uint64_t data_bytes_;
  uint64_t count_ = 0;
  bool is_regular_ = true;
  data::Span first_;
  std::vector<data::Span> spans_;
};

class IndexedBinaryWriter final : public SampleWriter {
 public:
  IndexedBinaryWriter(std::unique_ptr<io::Writer> data, std::unique_ptr<io::Writer> offsets,
                      std::unique_ptr<io::Writer> sizes)
      : data_(std::move(data)), offsets_(std::move(offsets)), sizes_(std::move(sizes)) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    if (fields.size() != 1) {
      return fail(Errc::kInvalidArgument, "an indexed_binary sample is one array, but '{}' has {}",
                  printable(key), fields.size());
    }
    const ByteView bytes = fields[0].array.bytes;
    const uint64_t offset = data_.size_bytes();
    const uint64_t size = bytes.size();
    RETURN_IF_ERROR(data_.append(bytes));
    RETURN_IF_ERROR(offsets_.append(std::as_bytes(std::span(&offset, 1))));
    return sizes_.append(std::as_bytes(std::span(&size, 1)));
  }

  Status finish() override {
    RETURN_IF_ERROR(data_.close());
    RETURN_IF_ERROR(offsets_.close());
    return sizes_.close();
  }

 private:
  Appender data_;
  Appender offsets_;
  Appender sizes_;
};

class IndexedBinary final : public Format {
 public:
  explicit IndexedBinary(std::string_view name) : name_(name) {}

  std::string_view name() const override { return name_; }
  bool is_file_a_sample() const override { return false; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(const auto data, engine.open(path));
    ASSIGN_OR_RETURN(const uint64_t data_bytes, data->size_bytes());
    ASSIGN_OR_RETURN(const Integers offsets, Integers::open(engine, path, kOffsetsSuffix));
    ASSIGN_OR_RETURN(const Integers sizes, Integers::open(engine, path, kSizesSuffix));
    if (offsets.count != sizes.count) {
      return fail(Errc::kCorrupt,
                  "its {} file has {} offsets, but its {} file has {} sizes; generate it again",
                  kOffsetsSuffix, offsets.count, kSizesSuffix, sizes.count);
    }
    constexpr uint64_t kPieceCount = 64 * 1024;
    std::vector<uint64_t> some_offsets;
    std::vector<uint64_t> some_sizes;
    Places places(data_bytes);
    for (uint64_t at = 0; at < offsets.count; at += some_offsets.size()) {
      some_offsets.resize(static_cast<size_t>(std::min(kPieceCount, offsets.count - at)));
      some_sizes.resize(some_offsets.size());
      RETURN_IF_ERROR(offsets.read(at, some_offsets));
      RETURN_IF_ERROR(sizes.read(at, some_sizes));
      for (size_t i = 0; i < some_offsets.size(); ++i) {
        RETURN_IF_ERROR(places.add(some_offsets[i], some_sizes[i]));
      }
    }
    return places.finish();
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    fields.add(bytes_field("data", sample));
    return {};
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto data, engine.create(path));
    ASSIGN_OR_RETURN(auto offsets, engine.create(with_suffix(path, kOffsetsSuffix)));
    ASSIGN_OR_RETURN(auto sizes, engine.create(with_suffix(path, kSizesSuffix)));
    return std::unique_ptr<SampleWriter>(
        new IndexedBinaryWriter(std::move(data), std::move(offsets), std::move(sizes)));
  }

 private:
  std::string_view name_;
};

}  // namespace

std::unique_ptr<Format> make_indexed_binary(const FormatOptions& options) {
  static_cast<void>(options);
  return std::make_unique<IndexedBinary>("indexed_binary");
}

std::unique_ptr<Format> make_mmap_indexed_binary(const FormatOptions& options) {
  static_cast<void>(options);
  return std::make_unique<IndexedBinary>("mmap_indexed_binary");
}

}  // namespace millrace::format
