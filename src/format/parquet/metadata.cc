#include "format/parquet/metadata.h"

#include "base/text/text.h"
#include "format/parquet/thrift.h"

namespace millrace::format::parquet {
namespace {

// Converted types, the older way to say what a column means.
enum : int32_t {
  kConvertedUtf8 = 0,
  kConvertedMap = 1,
  kConvertedMapKeyValue = 2,
  kConvertedList = 3,
  kConvertedEnum = 4,
  kConvertedUint8 = 11,
  kConvertedUint16,
  kConvertedUint32,
  kConvertedUint64,
  kConvertedInt8,
  kConvertedInt16,
  kConvertedInt32,
  kConvertedInt64,
  kConvertedJson,
};

Meaning meaning_of_converted(int32_t type) {
  switch (type) {
    case kConvertedUtf8:
    case kConvertedEnum:
    case kConvertedJson:
      return Meaning::kText;
    case kConvertedMap:
    case kConvertedMapKeyValue:
      return Meaning::kMap;
    case kConvertedList:
      return Meaning::kList;
    case kConvertedUint8:
      return Meaning::kUint8;
    case kConvertedUint16:
      return Meaning::kUint16;
    case kConvertedUint32:
      return Meaning::kUint32;
    case kConvertedUint64:
      return Meaning::kUint64;
    case kConvertedInt8:
      return Meaning::kInt8;
    case kConvertedInt16:
      return Meaning::kInt16;
    default:
      return Meaning::kNone;
  }
}

// The reverse, or -1.
int32_t converted_of(Meaning meaning) {
  for (int32_t type = kConvertedUtf8; type <= kConvertedInt16; ++type) {
    if (meaning != Meaning::kNone && meaning_of_converted(type) == meaning) return type;
  }
  return -1;
}

Meaning integer_meaning(int32_t bits, bool is_signed) {
  if (bits == 8) return is_signed ? Meaning::kInt8 : Meaning::kUint8;
  if (bits == 16) return is_signed ? Meaning::kInt16 : Meaning::kUint16;
  if (is_signed) return Meaning::kNone;
  return bits == 32 ? Meaning::kUint32 : Meaning::kUint64;
}

// A union: a struct with one field, whose number says which logical type it is.
bool read_logical_type(ThriftReader& reader, ThriftType type, Meaning& meaning) {
  return reader.read_struct(type, [&](int16_t id, ThriftType kind) {
    if (id == 1 || id == 4 || id == 12) meaning = Meaning::kText;
    if (id == 2) meaning = Meaning::kMap;
    if (id == 3) meaning = Meaning::kList;
    if (id == 15) meaning = Meaning::kFloat16;
    if (id != 10) return false;
    int32_t bits = 0;
    bool is_signed = true;
    reader.read_struct(kind, [&](int16_t part, ThriftType part_type) {
      if (part == 1) return reader.read(part_type, bits);
      if (part == 2) return reader.read(part_type, is_signed);
      return false;
    });
    meaning = integer_meaning(bits, is_signed);
    return true;
  });
}

SchemaElement read_element(ThriftReader& reader) {
  SchemaElement element;
  std::string_view name;
  reader.read_struct([&](int16_t id, ThriftType type) {
    int32_t number = 0;
    switch (id) {
      case 1:
        reader.read(type, number);
        element.type = static_cast<PhysicalType>(number);
        return true;
      case 2:
        return reader.read(type, element.type_length);
      case 3:
        reader.read(type, number);
        element.repetition = static_cast<Repetition>(number);
        return true;
      case 4:
        return reader.read(type, name);
      case 5:
        return reader.read(type, element.child_count);
      case 6:
        reader.read(type, number);
        if (element.meaning == Meaning::kNone) element.meaning = meaning_of_converted(number);
        return true;
      case 10:
        return read_logical_type(reader, type, element.meaning);
      default:
        return false;
    }
  });
  element.name = name;
  return element;
}

// The numbers of a chunk as they are in the file.
struct RawChunk {
  std::string_view file_path;
  bool is_encrypted = false;
  int32_t type = 0;
  int32_t codec = 0;
  int64_t value_count = 0;
  int64_t plain_bytes = 0;
  int64_t size_bytes = -1;
  int64_t data_offset = -1;
  int64_t dictionary_offset = -1;
};

bool read_chunk_metadata(ThriftReader& reader, ThriftType type, RawChunk& chunk) {
  return reader.read_struct(type, [&](int16_t id, ThriftType kind) {
    switch (id) {
      case 1:
        return reader.read(kind, chunk.type);
      case 4:
        return reader.read(kind, chunk.codec);
      case 5:
        return reader.read(kind, chunk.value_count);
      case 6:
        return reader.read(kind, chunk.plain_bytes);
      case 7:
        return reader.read(kind, chunk.size_bytes);
      case 9:
        return reader.read(kind, chunk.data_offset);
      case 11:
        return reader.read(kind, chunk.dictionary_offset);
      default:
        return false;
    }
  });
}

RawChunk read_chunk(ThriftReader& reader) {
  RawChunk chunk;
  reader.read_struct([&](int16_t id, ThriftType type) {
    if (id == 1) return reader.read(type, chunk.file_path);
    if (id == 3) return read_chunk_metadata(reader, type, chunk);
    if (id == 8) chunk.is_encrypted = true;
    return false;
  });
  return chunk;
}

Result<ColumnChunk> checked(const RawChunk& raw, uint64_t file_bytes) {
  if (raw.is_encrypted) {
    return fail(Errc::kUnsupported, "it is encrypted; decrypt it with the program that wrote it");
  }
  if (!raw.file_path.empty()) {
    return fail(Errc::kUnsupported, "its data is in another file, '{}'; open that file",
                printable(raw.file_path));
  }
  // Some writers store 0 for "no dictionary".
  const int64_t begin = raw.dictionary_offset > 0 && raw.dictionary_offset < raw.data_offset
                            ? raw.dictionary_offset
                            : raw.data_offset;
  if (begin < 0 || raw.size_bytes < 0 || raw.value_count < 0 || raw.plain_bytes < 0 ||
      static_cast<uint64_t>(begin) > file_bytes ||
      static_cast<uint64_t>(raw.size_bytes) > file_bytes - static_cast<uint64_t>(begin)) {
    return fail(Errc::kCorrupt, "it claims {} bytes at byte {}, but the file ends at {}",
                raw.size_bytes, begin, file_bytes);
  }
  return ColumnChunk{.type = static_cast<PhysicalType>(raw.type),
                     .codec = static_cast<Codec>(raw.codec),
                     .value_count = static_cast<uint64_t>(raw.value_count),
                     .offset_bytes = static_cast<uint64_t>(begin),
                     .size_bytes = static_cast<uint64_t>(raw.size_bytes),
                     .plain_bytes = static_cast<uint64_t>(raw.plain_bytes)};
}

// The first error of a chunk goes to `error`.
RowGroup read_row_group(ThriftReader& reader, uint64_t file_bytes, Status& error) {
  RowGroup group;
  int64_t row_count = -1;
  reader.read_struct([&](int16_t id, ThriftType type) {
    if (id == 3) return reader.read(type, row_count);
    if (id != 1) return false;
    return reader.read_list(
        type, [&](uint64_t count) { group.columns.reserve(count); },
        [&](ThriftType) {
          auto chunk = checked(read_chunk(reader), file_bytes);
          if (!chunk.ok() && error.ok()) {
            error = Status(std::move(chunk).error())
                        .within(fmt::format("column chunk {}", group.columns.size()));
          }
          group.columns.push_back(chunk.ok() ? *chunk : ColumnChunk{});
        });
  });
  if (row_count < 0 && error.ok()) error = fail(Errc::kCorrupt, "it claims {} rows", row_count);
  group.row_count = static_cast<uint64_t>(row_count);
  return group;
}

std::pair<std::string, std::string> read_property(ThriftReader& reader) {
  std::string_view key, value;
  reader.read_struct([&](int16_t id, ThriftType type) {
    if (id == 1) return reader.read(type, key);
    if (id == 2) return reader.read(type, value);
    return false;
  });
  return {std::string(key), std::string(value)};
}

struct RawFile {
  FileMetadata metadata;
  int64_t row_count = 0;
  bool is_encrypted = false;
  Status error;
};

void read_file(ThriftReader& reader, uint64_t file_bytes, RawFile& file) {
  const auto none = [](uint64_t) {};
  FileMetadata& metadata = file.metadata;
  reader.read_struct([&](int16_t id, ThriftType type) {
    switch (id) {
      case 2:
        return reader.read_list(
            type, none, [&](ThriftType) { metadata.schema.push_back(read_element(reader)); });
      case 3:
        return reader.read(type, file.row_count);
      case 4:
        return reader.read_list(type, none, [&](ThriftType) {
          Status error;
          metadata.row_groups.push_back(read_row_group(reader, file_bytes, error));
          if (error.ok() || !file.error.ok()) return;
          const size_t index = metadata.row_groups.size() - 1;
          file.error = std::move(error).within(fmt::format("row group {}", index));
        });
      case 5:
        return reader.read_list(
            type, none, [&](ThriftType) { metadata.properties.push_back(read_property(reader)); });
      default:
        file.is_encrypted = file.is_encrypted || id == 8;
        return false;
    }
  });
}

Status check_rows(const FileMetadata& metadata, int64_t claimed) {
  uint64_t total = 0;
  for (const RowGroup& group : metadata.row_groups) {
    if (__builtin_add_overflow(total, group.row_count, &total)) break;
  }
  if (claimed >= 0 && total == static_cast<uint64_t>(claimed)) return {};
  return fail(Errc::kCorrupt, "the footer claims {} rows, but its {} row groups have {}", claimed,
              metadata.row_groups.size(), total);
}

void encode_logical_type(ThriftWriter& writer, Meaning meaning) {
  const auto integer = [&](int bits, bool is_signed) {
    writer.begin_struct(10);
    writer.begin_struct(10);
    // An i8: the head of its field differs from that of wider integers.
    writer.byte_field(1, static_cast<uint8_t>(bits));
    writer.field(2, is_signed);
    writer.end();
    writer.end();
  };
  const auto plain = [&](int16_t id) {
    writer.begin_struct(10);
    writer.begin_struct(id);
    writer.end();
    writer.end();
  };
  switch (meaning) {
    case Meaning::kText:
      return plain(1);
    case Meaning::kList:
      return plain(3);
    case Meaning::kFloat16:
      return plain(15);
    case Meaning::kInt8:
      return integer(8, true);
    case Meaning::kInt16:
      return integer(16, true);
    case Meaning::kUint8:
      return integer(8, false);
    case Meaning::kUint16:
      return integer(16, false);
    case Meaning::kUint32:
      return integer(32, false);
    case Meaning::kUint64:
      return integer(64, false);
    case Meaning::kNone:
    case Meaning::kMap:
      return;
  }
}

void encode_element(ThriftWriter& writer, const SchemaElement& element, bool is_root) {
  writer.begin_item();
  if (element.type) writer.field(1, static_cast<int32_t>(*element.type));
  if (element.type_length != 0) writer.field(2, element.type_length);
  if (!is_root) writer.field(3, static_cast<int32_t>(element.repetition));
  writer.field(4, std::string_view(element.name));
  if (!element.type) writer.field(5, element.child_count);
  const int32_t converted = converted_of(element.meaning);
  if (converted >= 0) writer.field(6, converted);
  encode_logical_type(writer, element.meaning);
  writer.end();
}

// Where each leaf is, as names from the root.
std::vector<std::vector<std::string_view>> leaf_paths(const std::vector<SchemaElement>& schema) {
  std::vector<std::vector<std::string_view>> paths;
  std::vector<std::pair<std::string_view, int32_t>> open;  // groups, and how many children remain
  for (size_t i = 1; i < schema.size(); ++i) {
    const SchemaElement& element = schema[i];
    if (!element.type) {
      open.emplace_back(element.name, element.child_count);
      continue;
    }
    paths.emplace_back();
    for (const auto& [name, left] : open) paths.back().push_back(name);
    paths.back().push_back(element.name);
    while (!open.empty() && --open.back().second == 0) open.pop_back();
  }
  return paths;
}

void encode_chunk(ThriftWriter& writer, const ColumnChunk& chunk,
                  const std::vector<std::string_view>& path) {
  const auto offset = static_cast<int64_t>(chunk.offset_bytes);
  writer.begin_item();
  writer.field(2, int64_t{0});  // where a copy of the metadata is: nowhere
  writer.begin_struct(3);
  writer.field(1, static_cast<int32_t>(chunk.type));
  writer.begin_list(2, ThriftType::kI32, 3);
  for (const Encoding used : {Encoding::kPlain, Encoding::kRle, Encoding::kRleDictionary}) {
    writer.item(static_cast<int32_t>(used));
  }
  writer.begin_list(3, ThriftType::kBinary, path.size());
  for (const std::string_view name : path) writer.item(name);
  writer.field(4, static_cast<int32_t>(chunk.codec));
  writer.field(5, static_cast<int64_t>(chunk.value_count));
  writer.field(6, static_cast<int64_t>(chunk.plain_bytes));
  writer.field(7, static_cast<int64_t>(chunk.size_bytes));
  writer.field(9, offset + static_cast<int64_t>(chunk.dictionary_bytes));
  if (chunk.dictionary_bytes != 0) writer.field(11, offset);
  writer.end();
  writer.end();
}

void encode_row_group(ThriftWriter& writer, const RowGroup& group,
                      const std::vector<std::vector<std::string_view>>& paths) {
  int64_t plain_bytes = 0;
  writer.begin_item();
  writer.begin_list(1, ThriftType::kStruct, group.columns.size());
  for (size_t i = 0; i < group.columns.size(); ++i) {
    encode_chunk(writer, group.columns[i], paths[i]);
    plain_bytes += static_cast<int64_t>(group.columns[i].plain_bytes);
  }
  writer.field(2, plain_bytes);
  writer.field(3, static_cast<int64_t>(group.row_count));
  writer.end();
}

struct DataHeaderNumbers {
  int32_t encoding = 0;
  int32_t definition = static_cast<int32_t>(Encoding::kRle);
  int32_t repetition = static_cast<int32_t>(Encoding::kRle);
};

bool read_data_header(ThriftReader& reader, ThriftType type, PageHeader& page) {
  DataHeaderNumbers numbers;
  reader.read_struct(type, [&](int16_t id, ThriftType kind) {
    if (id == 1) return reader.read(kind, page.value_count);
    if (id == 2) return reader.read(kind, numbers.encoding);
    if (id == 3) return reader.read(kind, numbers.definition);
    if (id == 4) return reader.read(kind, numbers.repetition);
    return false;
  });
  page.encoding = static_cast<Encoding>(numbers.encoding);
  page.definition_encoding = static_cast<Encoding>(numbers.definition);
  page.repetition_encoding = static_cast<Encoding>(numbers.repetition);
  return true;
}

bool read_data_header_v2(ThriftReader& reader, ThriftType type, PageHeader& page) {
  int32_t encoding = 0;
  reader.read_struct(type, [&](int16_t id, ThriftType kind) {
    if (id == 1) return reader.read(kind, page.value_count);
    if (id == 4) return reader.read(kind, encoding);
    if (id == 5) return reader.read(kind, page.definition_bytes);
    if (id == 6) return reader.read(kind, page.repetition_bytes);
    if (id == 7) return reader.read(kind, page.is_compressed);
    return false;
  });
  page.encoding = static_cast<Encoding>(encoding);
  return true;
}

bool read_dictionary_header(ThriftReader& reader, ThriftType type, PageHeader& page) {
  int32_t encoding = 0;
  reader.read_struct(type, [&](int16_t id, ThriftType kind) {
    if (id == 1) return reader.read(kind, page.value_count);
    if (id == 2) return reader.read(kind, encoding);
    return false;
  });
  page.encoding = static_cast<Encoding>(encoding);
  return true;
}

}  // namespace

Result<FileMetadata> parse_metadata(ByteView footer, uint64_t file_bytes) {
  ThriftReader reader(footer);
  RawFile file;
  read_file(reader, file_bytes, file);
  RETURN_IF_ERROR(reader.status().within("the footer"));
  if (file.is_encrypted) {
    return fail(Errc::kUnsupported,
                "the file is encrypted; decrypt it with the program that wrote it");
  }
  RETURN_IF_ERROR(std::move(file.error));
  RETURN_IF_ERROR(check_rows(file.metadata, file.row_count));
  file.metadata.row_count = static_cast<uint64_t>(file.row_count);
  return std::move(file.metadata);
}

std::string encode_metadata(const FileMetadata& metadata) {
  std::string out;
  ThriftWriter writer(out);
  writer.field(1, int32_t{2});  // the version of the format
  writer.begin_list(2, ThriftType::kStruct, metadata.schema.size());
  for (size_t i = 0; i < metadata.schema.size(); ++i) {
    encode_element(writer, metadata.schema[i], i == 0);
  }
  writer.field(3, static_cast<int64_t>(metadata.row_count));
  writer.begin_list(4, ThriftType::kStruct, metadata.row_groups.size());
  const auto paths = leaf_paths(metadata.schema);
  for (const RowGroup& group : metadata.row_groups) encode_row_group(writer, group, paths);
  if (!metadata.properties.empty()) {
    writer.begin_list(5, ThriftType::kStruct, metadata.properties.size());
    for (const auto& [key, value] : metadata.properties) {
      writer.begin_item();
      writer.field(1, std::string_view(key));
      writer.field(2, std::string_view(value));
      writer.end();
    }
  }
  writer.field(6, std::string_view("millrace"));
  writer.end();
  return out;
}

Result<PageHeader> parse_page_header(ByteView bytes) {
  ThriftReader reader(bytes);
  PageHeader page;
  int32_t page_type = 0;
  int32_t crc = 0;
  reader.read_struct([&](int16_t id, ThriftType type) {
    switch (id) {
      case 1:
        return reader.read(type, page_type);
      case 2:
        return reader.read(type, page.plain_bytes);
      case 3:
        return reader.read(type, page.packed_bytes);
      case 4:
        reader.read(type, crc);
        page.crc32 = static_cast<uint32_t>(crc);
        return true;
      case 5:
        return read_data_header(reader, type, page);
      case 7:
        return read_dictionary_header(reader, type, page);
      case 8:
        return read_data_header_v2(reader, type, page);
      default:
        return false;
    }
  });
  RETURN_IF_ERROR(reader.status().within("a page header"));
  page.type = static_cast<PageType>(page_type);
  page.header_bytes = reader.position();
  if (page.plain_bytes < 0 || page.packed_bytes < 0 || page.value_count < 0 ||
      page.definition_bytes < 0 || page.repetition_bytes < 0) {
    return fail(Errc::kCorrupt, "a page header claims a negative size");
  }
  return page;
}

void encode_page_header(const PageHeader& page, std::string& out) {
  ThriftWriter writer(out);
  writer.field(1, static_cast<int32_t>(page.type));
  writer.field(2, page.plain_bytes);
  writer.field(3, page.packed_bytes);
  if (page.crc32) writer.field(4, static_cast<int32_t>(*page.crc32));
  const bool is_dictionary = page.type == PageType::kDictionary;
  writer.begin_struct(is_dictionary ? 7 : 5);
  writer.field(1, page.value_count);
  writer.field(2, static_cast<int32_t>(page.encoding));
  if (!is_dictionary) {
    writer.field(3, static_cast<int32_t>(Encoding::kRle));
    writer.field(4, static_cast<int32_t>(Encoding::kRle));
  }
  writer.end();
  writer.end();
}

}  // namespace millrace::format::parquet
