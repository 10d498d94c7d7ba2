// Encode text: appends numbers and strings as JSON and CSV.
//
// Paths and names may contain any bytes. All output is well-formed UTF-8: an invalid byte becomes
// \xNN, which a reader can recognize. U+FFFD would make different names equal.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace millrace::interop {

template <typename Integer>
  requires std::is_integral_v<Integer>
void append_integer(std::string& out, Integer number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}

// The shortest text that reads back as the same number. It always has a point or an exponent, which
// distinguishes it from an integer. NaN and infinity become null, because JSON does not have them.
void append_number(std::string& out, double number);

// Sixteen digits.
void append_hex(std::string& out, uint64_t number);

// "text", with JSON escapes.
void append_json_text(std::string& out, std::string_view text);

// A CSV field as in RFC 4180: quoted if it contains a comma, a quote or a line break.
void append_csv_text(std::string& out, std::string_view text);

// The bytes as UTF-8. Invalid bytes and NUL become \xNN.
std::string well_formed(std::string_view text);

// Convert bytes to hexadecimal digits and back. False if `digits` are not hexadecimal.
void append_hex_bytes(std::string& out, std::string_view bytes);
bool bytes_of_hex(std::string_view digits, std::string& bytes);

}  // namespace millrace::interop
