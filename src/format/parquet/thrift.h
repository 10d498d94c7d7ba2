// thrift: the compact protocol of Thrift, in which Parquet stores its footer and page headers.
//
// Reading: after the first error, every call does nothing and returns zeros, and status() tells
// what was wrong. A parser therefore checks once, at its end. Lengths, depths and types are
// checked.
//
//   reader.read_struct([&](int16_t id, ThriftType type) {
//     if (id == 1) return reader.read(type, version);
//     return false;  // skipped
//   });
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"

namespace millrace::format::parquet {

enum class ThriftType : uint8_t {
  kStop,
  kTrue,
  kFalse,
  kByte,
  kI16,
  kI32,
  kI64,
  kDouble,
  kBinary,
  kList,
  kSet,
  kMap,
  kStruct
};

class ThriftReader {
 public:
  explicit ThriftReader(ByteView bytes) : bytes_(bytes) {}

  size_t position() const { return at_; }
  Status status() const { return error_ ? Status(*error_) : Status(); }

  // Calls on_field(id, type) for each field. It returns whether it has read the value.
  template <typename OnField>
  bool read_struct(OnField on_field) {
    int16_t id = 0;
    if (!enter()) return true;
    while (const auto type = next_field(id)) {
      if (!on_field(id, *type)) skip(*type);
    }
    --depth_;
    return true;
  }

  // For a field that must be a struct.
  template <typename OnField>
  bool read_struct(ThriftType type, OnField on_field) {
    return expect(type, ThriftType::kStruct) && read_struct(on_field);
  }

  // Calls on_item(type) for each item; it must read it. `reserve` gets the number of items, which
  // is at most the number of bytes that are left.
  template <typename Reserve, typename OnItem>
  bool read_list(ThriftType type, Reserve reserve, OnItem on_item) {
    if (!expect(type, ThriftType::kList) || !enter()) return true;
    ThriftType item{};
    const uint64_t count = list_head(item);
    reserve(count);
    for (uint64_t i = 0; i < count && !error_; ++i) on_item(item);
    --depth_;
    return true;
  }

  // Each returns true, so that it can end a case of on_field. The type must fit the variable.
  bool read(ThriftType type, int32_t& out);
  bool read(ThriftType type, int64_t& out);
  bool read(ThriftType type, bool& out);
  bool read(ThriftType type, std::string_view& out);  // a view of the bytes

 private:
  bool expect(ThriftType found, ThriftType wanted);
  bool enter();
  std::optional<ThriftType> next_field(int16_t& id);
  uint64_t list_head(ThriftType& item);
  void skip(ThriftType type);
  void skip_map();
  uint8_t byte();
  uint64_t varint();
  int64_t zigzag();
  void skip_bytes(uint64_t count);
  void fault(std::string_view what);

  ByteView bytes_;
  size_t at_ = 0;
  int depth_ = 0;
  std::optional<Error> error_;
};

// Writes structs field by field. Ids of a struct must rise.
class ThriftWriter {
 public:
  explicit ThriftWriter(std::string& out) : out_(out) {}

  void field(int16_t id, int32_t value);
  void field(int16_t id, int64_t value);
  void field(int16_t id, bool value);
  void field(int16_t id, std::string_view value);
  void byte_field(int16_t id, uint8_t value);
  void begin_struct(int16_t id);
  void begin_list(int16_t id, ThriftType item, size_t count);
  // Items of a list.
  void item(int32_t value);
  void item(std::string_view value);
  void begin_item();  // a struct
  // Ends a struct, also the outermost one.
  void end();

 private:
  void head(int16_t id, ThriftType type);
  void varint(uint64_t value);

  std::string& out_;
  int16_t last_id_ = 0;
  std::string outer_ids_;  // of the open structs, each below 128
};

}  // namespace millrace::format::parquet
