#include "interop/encode_text.h"

#include <algorithm>
#include <cmath>

#include "base/text/text.h"

namespace millrace::interop {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

void append_byte_escape(std::string& out, unsigned char byte) {
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

void append_json_control(std::string& out, unsigned char byte) {
  switch (byte) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
  }
}

bool is_plain_ascii(unsigned char byte) {
  return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

}  // namespace

void append_number(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  const std::string_view spelled(digits, static_cast<size_t>(end - digits));
  out += spelled;
  if (spelled.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_hex(std::string& out, uint64_t number) {
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(number >> shift) & 15];
}

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    size_t plain = 0;
    while (plain < text.size() && is_plain_ascii(static_cast<unsigned char>(text[plain]))) ++plain;
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const auto byte = static_cast<unsigned char>(text.front());
    size_t length = 1;
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text.front();
    } else if (byte < 0x20 || byte == 0x7f) {
      append_json_control(out, byte);
    } else if (length = utf8_length(text); length > 0) {
      out += text.substr(0, length);
    } else {
      length = 1;
      out += '\\';
      append_byte_escape(out, byte);
    }
    text.remove_prefix(length);
  }
  out += '"';
}

void append_csv_text(std::string& out, std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char letter) {
    return is_plain_ascii(static_cast<unsigned char>(letter)) && letter != ',';
  });
  if (plain) {  // nearly always
    out += text;
    return;
  }
  const std::string held = well_formed(text);
  if (held.find_first_of(",\"\r\n") == std::string::npos) {
    out += held;
    return;
  }
  out += '"';
  for (const char letter : held) {
    if (letter == '"') out += '"';
    out += letter;
  }
  out += '"';
}

std::string well_formed(std::string_view text) {
  if (is_utf8(text) && text.find('\0') == std::string_view::npos) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t length = text.front() == '\0' ? 0 : utf8_length(text);
    if (length == 0) append_byte_escape(out, static_cast<unsigned char>(text.front()));
    out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

void append_hex_bytes(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) {
    out += kDigits[static_cast<unsigned char>(byte) >> 4];
    out += kDigits[static_cast<unsigned char>(byte) & 15];
  }
}

bool bytes_of_hex(std::string_view digits, std::string& bytes) {
  if (digits.size() % 2 != 0) return false;
  bytes.clear();
  for (size_t i = 0; i < digits.size(); i += 2) {
    const int high = hex_value(digits[i]);
    const int low = hex_value(digits[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes += static_cast<char>(high * 16 + low);
  }
  return true;
}

}  // namespace millrace::interop
