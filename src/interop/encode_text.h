// Encode text: numbers and strings appended to a text as JSON and CSV spell them.
//
// Paths and names are other people's bytes. Every output here is well-formed UTF-8: a byte that is
// not becomes \xNN, which a reader can recognise, rather than U+FFFD, which would make different
// names equal.
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

// The shortest spelling that reads back as the same number, always with a point or an exponent, so
// that it is told from an integer. JSON has no NaN and no infinity: null.
void append_number(std::string& out, double number);

// Sixteen digits.
void append_hex(std::string& out, uint64_t number);

// "text", with JSON's escapes.
void append_json_text(std::string& out, std::string_view text);

// A CSV field as RFC 4180 has it: quoted where it holds a comma, a quote or a line end.
void append_csv_text(std::string& out, std::string_view text);

// The bytes as UTF-8, ill-formed ones and NUL as \xNN.
std::string well_formed(std::string_view text);

// The bytes as hexadecimal digits and back. False where `digits` are not such.
void append_hex_bytes(std::string& out, std::string_view bytes);
bool bytes_of_hex(std::string_view digits, std::string& bytes);

}  // namespace millrace::interop
