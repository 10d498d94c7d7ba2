#include "format/arrays/megatron.h"

#include <atomic>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/text/text.h"
#include "format/appender.h"
#include "format/formats.h"

namespace millrace::format {
namespace {

using data::ElementType;

// The codes are fixed by Megatron: its index is 1 at the first.
constexpr ElementType kTypes[] = {ElementType::kU8,  ElementType::kI8,  ElementType::kI16,
                                  ElementType::kI32, ElementType::kI64, ElementType::kF64,
                                  ElementType::kF32, ElementType::kU16};

std::optional<uint8_t> code_of(ElementType type) {
  for (size_t i = 0; i < std::size(kTypes); ++i) {
    if (kTypes[i] == type) return static_cast<uint8_t>(i + 1);
  }
  return std::nullopt;
}

constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr uint64_t kVersion = 1;
// Magic, version (8 bytes), type (1), number of sequences (8), number of boundaries (8).
constexpr size_t kHeaderBytes = 34;
constexpr uint64_t kWindowMax = uint64_t{1} << 40;

struct MegatronHeader {
  ElementType type = ElementType::kI32;
  uint64_t sequence_count = 0;
  uint64_t boundary_count = 0;  // of documents: one more than there are
};

struct MegatronIndex {
  ElementType type = ElementType::kI32;
  uint64_t sequence_count = 0;
  uint64_t boundary_count = 0;  // of documents: one more than there are
  ByteView sizes;               // int32
  ByteView pointers;            // int64
  ByteView boundaries;          // int64

  int32_t size(uint64_t sequence) const { return at<int32_t>(sizes, sequence); }
  int64_t pointer(uint64_t sequence) const { return at<int64_t>(pointers, sequence); }
  int64_t boundary(uint64_t document) const { return at<int64_t>(boundaries, document); }

 private:
  template <typename T>
  static T at(ByteView table, uint64_t index) {
    T value;
    std::memcpy(&value, table.data() + index * sizeof(T), sizeof(T));
    return value;
  }
};

// Checks the length of the index file too, before anything of it is believed.
Result<MegatronHeader> read_header(ByteView head, uint64_t file_bytes) {
  ByteReader reader(head);
  ASSIGN_OR_RETURN(const std::string_view magic, reader.take_text(kMagic.size()));
  if (magic != kMagic) {
    return fail(Errc::kCorrupt, "this is not an index of tokens: it does not begin with MMIDIDX");
  }
  ASSIGN_OR_RETURN(const uint64_t version, reader.read<uint64_t>());
  if (version != kVersion) {
    return fail(Errc::kUnsupported, "the index has version {}; this build reads {}", version,
                kVersion);
  }
  ASSIGN_OR_RETURN(const uint8_t code, reader.read<uint8_t>());
  if (code < 1 || code > std::size(kTypes)) {
    return fail(Errc::kCorrupt, "the tokens have the unknown type {}", code);
  }
  MegatronHeader header{.type = kTypes[code - 1]};
  ASSIGN_OR_RETURN(header.sequence_count, reader.read<uint64_t>());
  ASSIGN_OR_RETURN(header.boundary_count, reader.read<uint64_t>());
  constexpr uint64_t kSequenceBytes = sizeof(int32_t) + sizeof(int64_t);
  const uint64_t limit = file_bytes / sizeof(int32_t);  // so that no product wraps
  const uint64_t tables_bytes = file_bytes - kHeaderBytes;
  if (header.sequence_count <= limit && header.boundary_count <= limit) {
    const uint64_t wanted =
        header.sequence_count * kSequenceBytes + header.boundary_count * sizeof(int64_t);
    // Multimodal datasets have one more byte per sequence.
    if (tables_bytes == wanted || tables_bytes == wanted + header.sequence_count) return header;
  }
  return fail(Errc::kCorrupt, "an index of {} sequences and {} boundaries cannot have {} bytes",
              header.sequence_count, header.boundary_count, file_bytes);
}

Result<MegatronIndex> read_index(ByteView file) {
  ASSIGN_OR_RETURN(const MegatronHeader header, read_header(file, file.size()));
  MegatronIndex index{.type = header.type,
                      .sequence_count = header.sequence_count,
                      .boundary_count = header.boundary_count};
  ByteReader reader(file.subspan(kHeaderBytes));
  ASSIGN_OR_RETURN(index.sizes, reader.take(index.sequence_count * sizeof(int32_t)));
  ASSIGN_OR_RETURN(index.pointers, reader.take(index.sequence_count * sizeof(int64_t)));
  ASSIGN_OR_RETURN(index.boundaries, reader.take(index.boundary_count * sizeof(int64_t)));
  return index;
}

// Checks that the sequences follow each other and fill the data file.
Status check_sequences(const MegatronIndex& index, uint64_t data_bytes) {
  const uint64_t width = data::element_bytes(index.type);
  uint64_t at = 0;
  for (uint64_t i = 0; i < index.sequence_count; ++i) {
    const int32_t size = index.size(i);
    const int64_t pointer = index.pointer(i);
    if (size < 0 || pointer < 0 || static_cast<uint64_t>(pointer) != at ||
        static_cast<uint64_t>(size) > (data_bytes - at) / width) {
      return fail(
          Errc::kCorrupt,
          "sequence {} has {} tokens at byte {}, but {} bytes of the data file's {} precede "
          "it",
          i, size, pointer, at, data_bytes);
    }
    at += static_cast<uint64_t>(size) * width;
  }
  if (at == data_bytes) return {};
  return fail(Errc::kCorrupt, "the sequences end at byte {}, but the data file at {}", at,
              data_bytes);
}

Result<std::vector<data::Span>> documents_of(const MegatronIndex& index, uint64_t data_bytes) {
  std::vector<data::Span> spans;
  const auto offset_of = [&](int64_t sequence) {
    return static_cast<uint64_t>(sequence) == index.sequence_count
               ? data_bytes
               : static_cast<uint64_t>(index.pointer(static_cast<uint64_t>(sequence)));
  };
  int64_t last = 0;
  for (uint64_t i = 0; i < index.boundary_count; ++i) {
    const int64_t boundary = index.boundary(i);
    if (boundary < last || static_cast<uint64_t>(boundary) > index.sequence_count ||
        (i == 0 && boundary != 0)) {
      return fail(Errc::kCorrupt, "document {} begins at sequence {}, after {} of {}", i, boundary,
                  last, index.sequence_count);
    }
    if (i > 0) {
      const uint64_t begin = offset_of(last);
      spans.push_back({.offset_bytes = begin, .size_bytes = offset_of(boundary) - begin});
    }
    last = boundary;
  }
  if (static_cast<uint64_t>(last) != index.sequence_count) {
    return fail(Errc::kCorrupt, "the documents end at sequence {} of {}", last,
                index.sequence_count);
  }
  return spans;
}

std::vector<data::Span> windows_of(uint64_t token_count, uint64_t width, uint64_t window_tokens) {
  const uint64_t count = token_count == 0 ? 0 : (token_count - 1) / window_tokens;
  std::vector<data::Span> spans;
  spans.reserve(static_cast<size_t>(count));
  for (uint64_t i = 0; i < count; ++i) {
    spans.push_back(
        {.offset_bytes = i * window_tokens * width, .size_bytes = (window_tokens + 1) * width});
  }
  return spans;
}

class MegatronWriter final : public SampleWriter {
 public:
  MegatronWriter(std::unique_ptr<io::Writer> data, std::unique_ptr<io::Writer> index)
      : data_(std::move(data)), index_(std::move(index)) {}

  Status add(std::string_view key, std::span<const Field> fields) override {
    const auto wrong = [&](std::string_view what) {
      return fail(Errc::kInvalidArgument, "sample '{}' {}", printable(key), what);
    };
    if (fields.size() != 1) return wrong("has several fields; a document is one list of tokens");
    const data::ArrayView& array = fields[0].array;
    if (!code_of(array.type)) {
      return wrong(fmt::format("has {}, which Megatron has no code for; use int32 or uint16",
                               data::element_name(array.type)));
    }
    if (!sizes_.empty() && array.type != type_) {
      return wrong(fmt::format("has {}, but the first has {}", data::element_name(array.type),
                               data::element_name(type_)));
    }
    if (array.shape.element_count() > uint64_t{std::numeric_limits<int32_t>::max()}) {
      return wrong("has more than 2^31 - 1 tokens");
    }
    type_ = array.type;
    pointers_.push_back(static_cast<int64_t>(data_.size_bytes()));
    sizes_.push_back(static_cast<int32_t>(array.shape.element_count()));
    return data_.append(array.bytes);
  }

  Status finish() override {
    RETURN_IF_ERROR(data_.close());
    const uint8_t code = *code_of(type_);
    const uint64_t counts[] = {sizes_.size(), sizes_.size() + 1};
    std::vector<int64_t> boundaries(sizes_.size() + 1);
    for (size_t i = 0; i < boundaries.size(); ++i) boundaries[i] = static_cast<int64_t>(i);
    RETURN_IF_ERROR(index_.append(kMagic));
    RETURN_IF_ERROR(index_.append(std::as_bytes(std::span(&kVersion, 1))));
    RETURN_IF_ERROR(index_.append(std::as_bytes(std::span(&code, 1))));
    RETURN_IF_ERROR(index_.append(std::as_bytes(std::span(counts))));
    RETURN_IF_ERROR(index_.append(std::as_bytes(std::span(sizes_))));
    RETURN_IF_ERROR(index_.append(std::as_bytes(std::span(pointers_))));
    RETURN_IF_ERROR(index_.append(std::as_bytes(std::span(boundaries))));
    return index_.close();
  }

 private:
  Appender data_;
  Appender index_;
  ElementType type_ = ElementType::kI32;
  std::vector<int32_t> sizes_;
  std::vector<int64_t> pointers_;
};

class Megatron final : public Format {
 public:
  explicit Megatron(const FormatOptions& options) : window_tokens_(options.window_tokens) {}

  std::string_view name() const override { return "megatron"; }
  bool is_file_a_sample() const override { return false; }

  Result<data::FileSamples> index(io::Engine& engine,
                                  const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(const auto data, engine.open(path));
    ASSIGN_OR_RETURN(const uint64_t data_bytes, data->size_bytes());
    ASSIGN_OR_RETURN(const auto index, engine.open(megatron_index_path(path)));
    ASSIGN_OR_RETURN(const uint64_t index_bytes, index->size_bytes());
    // The header first: the file may have any content and any length.
    std::vector<std::byte> bytes(kHeaderBytes);
    ASSIGN_OR_RETURN(const size_t head_bytes, index->read_at(0, bytes));
    RETURN_IF_ERROR(read_header(ByteView(bytes).first(head_bytes), index_bytes).within(".idx"));
    bytes.resize(static_cast<size_t>(index_bytes));
    ASSIGN_OR_RETURN(const size_t there, index->read_at(0, bytes));
    ASSIGN_OR_RETURN(
        MegatronSamples found,
        parse_megatron(ByteView(bytes).first(there), data_bytes, window_tokens_).within(".idx"));
    RETURN_IF_ERROR(learn(found.type));
    return std::move(found.samples);
  }

  Status split(ByteView sample, SampleFields& fields) const override {
    fields.clear();
    const int known = type_.load(std::memory_order_relaxed);
    if (known < 0) {
      fields.add(bytes_field("tokens", sample));
      return {};
    }
    const auto type = static_cast<ElementType>(known);
    const size_t width = data::element_bytes(type);
    if (sample.size() % width != 0) {
      return fail(Errc::kCorrupt, "{} bytes are not a whole number of {}", sample.size(),
                  data::element_name(type));
    }
    fields.add({.name = "tokens",
                .array = {.type = type, .shape = {sample.size() / width}, .bytes = sample}});
    return {};
  }

  Result<std::unique_ptr<SampleWriter>> create(io::Engine& engine,
                                               const std::filesystem::path& path) const override {
    ASSIGN_OR_RETURN(auto data, engine.create(path));
    ASSIGN_OR_RETURN(auto index, engine.create(megatron_index_path(path)));
    return std::unique_ptr<SampleWriter>(new MegatronWriter(std::move(data), std::move(index)));
  }

 private:
  // All files must have tokens of one type.
  Status learn(ElementType type) const {
    int expected = -1;
    if (type_.compare_exchange_strong(expected, static_cast<int>(type)) ||
        expected == static_cast<int>(type)) {
      return {};
    }
    return fail(Errc::kInvalidArgument, "its tokens are {}, but those of another file are {}",
                data::element_name(type), data::element_name(static_cast<ElementType>(expected)));
  }

  uint64_t window_tokens_;
  mutable std::atomic<int> type_ = -1;  // of the tokens, an ElementType; -1: no file was indexed
};

}  // namespace

std::filesystem::path megatron_index_path(const std::filesystem::path& data_path) {
  std::filesystem::path path = data_path;
  return path.replace_extension(".idx");
}

Result<MegatronSamples> parse_megatron(ByteView index_file, uint64_t data_bytes,
                                       uint64_t window_tokens) {
  ASSIGN_OR_RETURN(const MegatronIndex index, read_index(index_file));
  RETURN_IF_ERROR(check_sequences(index, data_bytes));
  MegatronSamples found{
      .type = index.type,
      .samples = {.kind = data::FileSamples::Kind::kListed, .stamp = {.size_bytes = data_bytes}}};
  ASSIGN_OR_RETURN(std::vector<data::Span> documents, documents_of(index, data_bytes));
  if (window_tokens == 0) {
    found.samples.spans = std::move(documents);
    return found;
  }
  if (window_tokens > kWindowMax) {
    return fail(Errc::kInvalidArgument, "a window of {} tokens is too long", window_tokens);
  }
  const uint64_t width = data::element_bytes(index.type);
  if (window_tokens < data_bytes / width) {
    found.samples.spans = windows_of(data_bytes / width, width, window_tokens);
  }
  found.samples.element =
      data::FieldSpec{.name = "tokens", .type = index.type, .shape = {window_tokens + 1}};
  return found;
}

std::unique_ptr<Format> make_megatron(const FormatOptions& options) {
  return std::make_unique<Megatron>(options);
}

}  // namespace millrace::format
