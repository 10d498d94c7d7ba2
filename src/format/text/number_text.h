// number_text: numbers as text, for the formats that store them so (csv, json).
//
// A number becomes the shortest text that is read back as the same number of its type. Text becomes
// int64, or the float type of FormatOptions; place_field() converts that to the type that a batch
// wants.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/base.h"
#include "base/result.h"
#include "data/array.h"
#include "format/format.h"

namespace millrace::format {

// Parses all of the text: "7", "+7", "-1.5e3", "nan", "inf"; spaces around it are allowed. Returns
// nullopt if it is not a number, or not an integer of 64 bits. Too large or too small floats become
// infinite or zero.
template <typename T>
std::optional<T> parse_number(std::string_view text);

extern template std::optional<int64_t> parse_number<int64_t>(std::string_view text);
extern template std::optional<float> parse_number<float>(std::string_view text);
extern template std::optional<double> parse_number<double>(std::string_view text);

// Appends element `index`. Fails for types that have no text (float16, bfloat16).
// REQUIRES: index < the number of elements.
Status append_number(std::string& out, const data::ArrayView& array, size_t index);

// Appends elements [first, first + count) with `between` between them: at most 4 characters.
Status append_numbers(std::string& out, const data::ArrayView& array, size_t first, size_t count,
                      std::string_view between);

// Converts elements to another type. False if a value does not fit: 300 into uint8, 0.5 into an
// integer. Floats are rounded. REQUIRES: `from` is kI64, kF32, kF64 or kBool; `out` has as many
// elements.
bool convert_numbers(data::ElementType from, ByteView bytes, data::ElementType to,
                     MutableByteView out);

// Whether a field of a sample is written as text and not as numbers: it has one axis of uint8. An
// only field "data" is numbers unless it was text before: formats without types name an array so.
bool is_text_field(const Field& field, std::span<const Field> all);

}  // namespace millrace::format
