// field_arrays: puts the fields of a sample into the fields of a batch.
//
// The rules for what fits are in array_decoder.h. Errors name the field.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/base.h"
#include "base/result.h"
#include "data/array.h"
#include "data/decoder.h"
#include "format/format.h"

namespace millrace::format {

// A tar's member whose bytes are an npy file.
bool is_npy(const Field& field);
// A tar's member that holds an integer as text, such as "cls".
bool is_integer_text(const Field& field);

// The array of a field; for a tar's npy, the array in it.
Result<data::ArrayView> array_of(const Field& field);

// REQUIRES: the spec is not ragged; `out` has its size.
Status place_field(const Field& field, const data::FieldSpec& spec, MutableByteView out);

// Whether place_field() only copies the bytes, whatever they are.
bool is_copied(const Field& field, const data::FieldSpec& spec);

// The items of a ragged field.
struct Items {
  ByteView bytes;
  uint64_t length = 0;
  std::vector<std::byte> converted = {};  // what `bytes` shows, if the numbers had another type
};
Result<Items> items_of(const Field& field, const data::FieldSpec& spec);

Status place_items(const Items& items, const data::Output& output);

// Only the items at these indexes. REQUIRES: each is below items.length.
Status place_some(const Items& items, std::span<const uint32_t> kept, const data::Output& output);

// Lists of one type and length as the columns of one array [length, columns], in `room`.
Result<Field> table_of(std::string_view name, std::span<const Field> columns,
                       std::vector<std::byte>& room);

}  // namespace millrace::format
