// schema: the columns of a Parquet file, as fields of a sample.
//
// A leaf of the schema is a column if no node above it repeats, or if it is the item of a list that
// is not within another group. Anything else (lists of lists, maps, structs in lists) has a column
// too, whose `refusal` says why it cannot be read: a file may have such columns if nobody asks for
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/array.h"
#include "format/parquet/metadata.h"

namespace millrace::format::parquet {

struct Column {
  std::string name;  // "age"; within a struct: "person.age"
  size_t leaf = 0;   // which chunk of a row group it is
  PhysicalType physical{};
  // The type of an element in memory. Strings and byte arrays are u8.
  data::ElementType type{};
  size_t file_bytes = 0;  // of a value in the file; 0: byte arrays of any length
  size_t item_bytes = 0;  // of a value in memory, likewise
  bool is_list = false;
  bool is_text = false;
  uint8_t definition_max = 0;
  uint8_t repeated_at = 0;  // lists: from this definition level on, there is an item, or a null
  uint8_t repetition_max = 0;
  std::optional<std::string> refusal;

  bool can_be_null() const { return definition_max > (is_list ? 1 : 0); }  // or an item of it
  bool is_bytes() const { return item_bytes == 0; }
  bool is_float() const;
};

Result<std::vector<Column>> columns_of(const std::vector<SchemaElement>& schema);

}  // namespace millrace::format::parquet
