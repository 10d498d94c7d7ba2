#include "format/arrays/indexed.h"

#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "base/text/text.h"
#include "format/appender.h"
#include "format/formats.h"
#include "wire/indexed_file.h"

namespace millrace::format {
namespace {

using wire::IndexedDataHeader;
using wire::IndexedIndexHeader;

template <typename T>
ByteView bytes_in(const std::vector<T>& items) {
  return std::as_bytes(std::span(items));
}

template <typename Header>
void seal(Header& header) {
  header.crc32c = crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, crc32c)));
}

template <typename Header>
Result<Header> read_header(ByteView bytes, uint64_t magic, std::string_view what) {
  if (bytes.size() < sizeof(Header)) {
    return fail(Errc::kCorrupt, "the {} file has {} bytes; its header alone takes {}", what,
                bytes.size(), sizeof(Header));
  }
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != magic) {
    return fail(Errc::kCorrupt, "this is not the {} file of indexed samples: its magic is wrong",
                what);
  }
  if (header.version != wire::kIndexedVersion) {
    return fail(Errc::kUnsupported, "the {} file was written by version {}; this build reads {}",
                what, header.version, wire::kIndexedVersion);
  }
  Header sealed = header;
  seal(sealed);
  if (sealed.crc32c != header.crc32c) {
    return fail(Errc::kCorrupt,
                "the header of the {} file has the checksum {:08x}, expected {:08x}", what,
                sealed.crc32c, header.crc32c);
  }
  return header;
}

bool has_labels(const IndexedIndexHeader& header) {
  return (header.flags & wire::kIndexedHasLabels) != 0;
}

// Whether the file length fits the number of samples. REQUIRES: the file contains the header.
Status check_length(const IndexedIndexHeader& header, uint64_t file_bytes) {
  const uint64_t entry_bytes = sizeof(uint64_t) + sizeof(uint32_t) + (has_labels(header) ? 4 : 0);
  const uint64_t table_bytes = file_bytes - sizeof(header);
  if (header.flags > wire::kIndexedHasLabels || table_bytes % entry_bytes != 0 ||
      table_bytes / entry_bytes != header.sample_count) {
    return fail(Errc::kCorrupt, "an index of {} samples (flags {:x}) cannot have {} bytes",
                header.sample_count, header.flags, file_bytes);
  }
  return {};
}

template <typename T>
Result<std::vector<T>> take_table(ByteReader& reader, uint64_t count) {
  ASSIGN_OR_RETURN(const ByteView bytes, reader.take(static_cast<size_t>(count) * sizeof(T)));
  std::vector<T> table(static_cast<size_t>(count));
  if (!bytes.empty()) std::memcpy(table.data(), bytes.data(), bytes.size());
  return table;
}

// Fails unless the ends rise from the header of the data file to its end.
Result<std::vector<data::Span>> spans_of(const std::vector<uint64_t>& ends, uint64_t data_bytes) {
  std::vector<data::Span> spans;
  spans.reserve(ends.size());
  uint64_t at = sizeof(IndexedDataHeader);
  for (const uint64_t end : ends) {
    if (end < at || end > data_bytes) {
      return fail(Errc::kCorrupt,
                  "sample {} ends at byte {}, but begins at {} in a data file of {} bytes",
                  spans.size(), end, at, data_bytes);
    }
    spans.push_back({.offset_bytes = at, .size_bytes = end - at});
    at = end;
  }
  if (at != data_bytes) {
    return fail(Errc::kCorrupt, "the samples end at byte {}, but the data file at {}", at,
                data_bytes);
  }
  return spans;
}

class IndexedWriter final : public SampleWriter {
 public:
  IndexedWriter(std::unique_ptr<io::Writer> data, std::unique_ptr<io::Writer> index)
      : data_(std::move(data)), index_(std::move(index)) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    if (ends_.empty()) RETURN_IF_ERROR(data_.pad(sizeof(IndexedDataHeader)));
    const Field* payload = nullptr;
    int32_t label = -1;
    for (const Field& field : fields) {
      if (field.name == "label" && fields.size() > 1) {
        ASSIGN_OR_RETURN(label, label_of(key, field.array));
      } else if (payload == nullptr) {
        payload = &field;
      } else {
        return fail(Errc::kInvalidArgument,
                    "an indexed sample is one array and an optional label; '{}' also has '{}'",
                    printable(key), printable(field.name));
      }
    }
    if (payload == nullptr) {
      return fail(Errc::kInvalidArgument, "sample '{}' has no array", printable(key));
    }
    RETURN_IF_ERROR(data_.append(payload->array.bytes));
    ends_.push_back(data_.size_bytes());
    checksums_.push_back(crc32c(payload->array.bytes));
    labels_.push_back(label);
    has_labels_ = has_labels_ || label >= 0;
    return {};
  }

  Status finish() override {
    if (ends_.empty()) RETURN_IF_ERROR(data_.pad(sizeof(IndexedDataHeader)));
    if (!has_labels_) labels_.clear();
    uint32_t tables_crc = crc32c(bytes_in(ends_));
    tables_crc = crc32c(bytes_in(checksums_), tables_crc);
    // Computed from the content and not random, so that equal samples give equal files.
    const uint64_t identity = uint64_t{tables_crc} << 32 | crc32c(bytes_in(checksums_));
    IndexedIndexHeader index{};
    index.magic = wire::kIndexedIndexMagic;
    index.version = wire::kIndexedVersion;
    index.flags = has_labels_ ? wire::kIndexedHasLabels : 0;
    index.identity = identity;
    index.sample_count = ends_.size();
    index.data_bytes = data_.size_bytes();
    index.tables_crc32c = crc32c(bytes_in(labels_), tables_crc);
    seal(index);
    IndexedDataHeader data{};
    data.magic = wire::kIndexedDataMagic;
    data.version = wire::kIndexedVersion;
    data.identity = identity;
    data.sample_count = ends_.size();
    data.data_bytes = data_.size_bytes();
    seal(data);
    RETURN_IF_ERROR(data_.overwrite(0, std::as_bytes(std::span(&data, 1))));
    RETURN_IF_ERROR(data_.close());
    RETURN_IF_ERROR(index_.append(std::as_bytes(std::span(&index, 1))));
    RETURN_IF_ERROR(index_.append(bytes_in(ends_)));
    RETURN_IF_ERROR(index_.append(bytes_in(checksums_)));
    RETURN_IF_ERROR(index_.append(bytes_in(labels_)));
    return index_.close();
  }

 private:
  static Result<int32_t> label_of(std::string_view key, const data::ArrayView& array) {
    int64_t label = -1;
    if (array.type == data::ElementType::kI64 && array.bytes.size() == sizeof(int64_t)) {
      std::memcpy(&label, array.bytes.data(), sizeof(int64_t));
    } else if (array.type == data::ElementType::kI32 && array.bytes.size() == sizeof(int32_t)) {
      int32_t narrow = 0;
      std::memcpy(&narrow, array.bytes.data(), sizeof(narrow));
      label = narrow;
    } else {
      return fail(Errc::kInvalidArgument, "the label of '{}' is not one int32 or int64",
                  printable(key));
    }
    if (label < -1 || label > std::numeric_limits<int32_t>::max()) {
      return fail(Errc::kInvalidArgument, "the label {} of '{}' does not fit into 31 bits", label,
                  printable(key));
    }
    return static_cast<int32_t>(label);
  }

  Appender data_;
  Appender index_;
  std::vector<uint64_t> ends_;
  std::vector<uint32_t> checksums_;
  std::vector<int32_t> labels_;
  bool has_labels_ = false;
};

class Indexed final : public Format {
 public:
  std::string_view name() const override { return "indexed"; }
  bool is_file_a_sample() const override { return false; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(const auto data, engine.open(path));
    ASSIGN_OR_RETURN(const uint64_t data_bytes, data->size_bytes());
    std::vector<std::byte> head(sizeof(IndexedDataHeader));
    ASSIGN_OR_RETURN(const size_t head_bytes, data->read_at(0, head));
    ASSIGN_OR_RETURN(const auto index, engine.open(index_path_of(path)));
    ASSIGN_OR_RETURN(const uint64_t index_bytes, index->size_bytes());
    // The header first: the file may have any content and any length.
    std::vector<std::byte> bytes(sizeof(IndexedIndexHeader));
    ASSIGN_OR_RETURN(const size_t there, index->read_at(0, bytes));
    ASSIGN_OR_RETURN(const auto header,
                     read_header<IndexedIndexHeader>(ByteView(bytes).first(there),
                                                     wire::kIndexedIndexMagic, "index"));
    RETURN_IF_ERROR(check_length(header, index_bytes));
    bytes.resize(static_cast<size_t>(index_bytes));
    ASSIGN_OR_RETURN(const size_t read_bytes, index->read_at(0, bytes));
    return parse_indexed(ByteView(bytes).first(read_bytes), ByteView(head).first(head_bytes),
                         data_bytes);
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    fields.add(bytes_field("data", sample));
    return {};
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto data, engine.create(path));
    ASSIGN_OR_RETURN(auto index, engine.create(index_path_of(path)));
    return std::unique_ptr<SampleWriter>(new IndexedWriter(std::move(data), std::move(index)));
  }
};

}  // namespace

std::filesystem::path index_path_of(const std::filesystem::path& data_path) {
  std::filesystem::path path = data_path;
  return path.replace_extension(".mrx");
}

Result<data::FileSamples> parse_indexed(ByteView index_file, ByteView data_head,
                                        uint64_t data_bytes) {
  ASSIGN_OR_RETURN(const auto data,
                   read_header<IndexedDataHeader>(data_head, wire::kIndexedDataMagic, "data"));
  ASSIGN_OR_RETURN(const auto index,
                   read_header<IndexedIndexHeader>(index_file, wire::kIndexedIndexMagic, "index"));
  if (data.identity != index.identity || data.sample_count != index.sample_count) {
    return fail(Errc::kCorrupt,
                "the index file belongs to other data ({} samples, identity {:016x}; the data file "
                "has {}, {:016x})",
                index.sample_count, index.identity, data.sample_count, data.identity);
  }
  if (data_bytes != data.data_bytes || data_bytes != index.data_bytes) {
    return fail(Errc::kCorrupt, "the data file has {} bytes, but was written with {}", data_bytes,
                index.data_bytes);
  }
  RETURN_IF_ERROR(check_length(index, index_file.size()));
  const ByteView tables = index_file.subspan(sizeof(index));
  if (crc32c(tables) != index.tables_crc32c) {
    return fail(Errc::kCorrupt, "the tables of the index have the checksum {:08x}, expected {:08x}",
                crc32c(tables), index.tables_crc32c);
  }
  ByteReader reader(tables);
  data::FileSamples samples{.kind = data::FileSamples::Kind::kListed,
                            .stamp = {.size_bytes = data_bytes}};
  ASSIGN_OR_RETURN(const auto ends, take_table<uint64_t>(reader, index.sample_count));
  ASSIGN_OR_RETURN(samples.checksums, take_table<uint32_t>(reader, index.sample_count));
  if (has_labels(index)) {
    ASSIGN_OR_RETURN(samples.labels, take_table<int32_t>(reader, index.sample_count));
  }
  ASSIGN_OR_RETURN(samples.spans, spans_of(ends, data_bytes));
  return samples;
}

std::unique_ptr<Format> make_indexed(const FormatOptions& options) {
  static_cast<void>(options);
  return std::make_unique<Indexed>();
}

}  // namespace millrace::format
