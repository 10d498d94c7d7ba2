// metadata: the structures of a Parquet file that say where its data is: the footer, its schema and
// row groups, and the header before each page.
//
// The numbers of the enumerations are those of the file format (docs/formats/parquet.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/base.h"
#include "base/result.h"

namespace millrace::format::parquet {

enum class PhysicalType : int32_t {
  kBoolean,
  kInt32,
  kInt64,
  kInt96,
  kFloat,
  kDouble,
  kByteArray,
  kFixedLenByteArray
};
enum class Repetition : int32_t { kRequired, kOptional, kRepeated };
enum class Codec : int32_t { kNone, kSnappy, kGzip, kLzo, kBrotli, kLz4, kZstd, kLz4Raw };
enum class Encoding : int32_t {
  kPlain = 0,
  kPlainDictionary = 2,
  kRle = 3,
  kBitPacked = 4,
  kDeltaBinaryPacked = 5,
  kDeltaLengthByteArray = 6,
  kDeltaByteArray = 7,
  kRleDictionary = 8,
  kByteStreamSplit = 9
};
enum class PageType : int32_t { kData = 0, kIndex = 1, kDictionary = 2, kDataV2 = 3 };

// What the bytes of a column mean beyond their physical type, as far as it matters here.
enum class Meaning : uint8_t {
  kNone,
  kText,
  kList,
  kMap,
  kFloat16,
  kInt8,
  kInt16,
  kUint8,
  kUint16,
  kUint32,
  kUint64
};

struct SchemaElement {
  std::optional<PhysicalType> type;  // nullopt: a group
  int32_t type_length = 0;           // of a fixed-length byte array
  Repetition repetition = Repetition::kRequired;
  std::string name;
  int32_t child_count = 0;
  Meaning meaning = Meaning::kNone;
};

struct ColumnChunk {
  PhysicalType type{};
  Codec codec{};
  uint64_t value_count = 0;       // with nulls
  uint64_t offset_bytes = 0;      // of the first page, which may be the dictionary
  uint64_t size_bytes = 0;        // of all pages, compressed
  uint64_t plain_bytes = 0;       // of all pages, uncompressed
  uint64_t dictionary_bytes = 0;  // of the dictionary page with its header; only for writing
};

struct RowGroup {
  uint64_t row_count = 0;
  std::vector<ColumnChunk> columns;  // in the order of the leaves of the schema
};

struct FileMetadata {
  std::vector<SchemaElement> schema;  // depth first, the root first
  uint64_t row_count = 0;
  std::vector<RowGroup> row_groups;
  std::vector<std::pair<std::string, std::string>> properties;
};

// `file_bytes` bounds the places of the chunks. Fails for encrypted files and for those whose
// columns are in other files.
Result<FileMetadata> parse_metadata(ByteView footer, uint64_t file_bytes);

// The number of leaves is that of the columns of each row group.
std::string encode_metadata(const FileMetadata& metadata);

struct PageHeader {
  PageType type{};
  int32_t plain_bytes = 0;   // uncompressed
  int32_t packed_bytes = 0;  // in the file
  std::optional<uint32_t> crc32;
  int32_t value_count = 0;  // with nulls
  Encoding encoding{};
  Encoding definition_encoding = Encoding::kRle;  // v1
  Encoding repetition_encoding = Encoding::kRle;  // v1
  int32_t definition_bytes = 0;                   // v2
  int32_t repetition_bytes = 0;                   // v2
  bool is_compressed = true;                      // v2
  size_t header_bytes = 0;
};

Result<PageHeader> parse_page_header(ByteView bytes);
void encode_page_header(const PageHeader& header, std::string& out);

}  // namespace millrace::format::parquet
