#include "base/text/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

struct Character {
  char32_t code_point;
  size_t length_bytes;  // 0: not UTF-8
};

Character decode(std::string_view text) {
  if (text.empty()) return {0, 0};
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {0, 0};
  char32_t code_point = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    code_point = (code_point << 6) | (byte(i) & 0x3fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < kSmallest[length] || code_point > 0x10ffff || surrogate) return {0, 0};
  return {code_point, length};
}

using Range = std::pair<char32_t, char32_t>;

// The blocks that occur in file names and tags in practice, not all of Unicode: a wrong guess only
// shifts a column.
constexpr Range kZeroWidth[] = {
    {0x300, 0x36f}, {0x200b, 0x200f}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
constexpr Range kWide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0xa4cf},
                           {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f},
                           {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                           {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};

template <size_t N>
bool is_in(const Range (&ranges)[N], char32_t code_point) {
  return std::any_of(std::begin(ranges), std::end(ranges), [&](const Range& range) {
    return code_point >= range.first && code_point <= range.second;
  });
}

size_t columns_of(char32_t code_point) {
  if (is_in(kZeroWidth, code_point)) return 0;
  return is_in(kWide, code_point) ? 2 : 1;
}

}  // namespace

size_t utf8_length(std::string_view text) { return decode(text).length_bytes; }

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    // Eight bytes at a time while they are ASCII, as nearly all are.
    uint64_t word = 0;
    while (text.size() >= sizeof(word)) {
      std::memcpy(&word, text.data(), sizeof(word));
      if ((word & 0x8080808080808080) != 0) break;
      text.remove_prefix(sizeof(word));
    }
    if (text.empty()) break;
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

size_t display_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Character character = decode(text);
    columns += character.length_bytes == 0 ? 1 : columns_of(character.code_point);
    text.remove_prefix(std::max<size_t>(character.length_bytes, 1));
  }
  return columns;
}

std::string shorten(std::string_view text, size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  constexpr std::string_view kCut = "...";
  if (columns <= kCut.size()) return std::string(kCut.substr(0, columns));
  size_t kept_columns = 0;
  size_t kept_bytes = 0;
  while (kept_bytes < text.size()) {
    const Character character = decode(text.substr(kept_bytes));
    const size_t width = character.length_bytes == 0 ? 1 : columns_of(character.code_point);
    if (kept_columns + width > columns - kCut.size()) break;
    kept_columns += width;
    kept_bytes += std::max<size_t>(character.length_bytes, 1);
  }
  return std::string(text.substr(0, kept_bytes)).append(kCut);
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = decode(text);
    const bool control = character.code_point < 0x20 ||
                         (character.code_point >= 0x7f && character.code_point < 0xa0);
    const size_t length = std::max<size_t>(character.length_bytes, 1);
    if (character.length_bytes == 0 || control) {
      for (const char byte : text.substr(0, length)) {
        out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
      }
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string join(const std::vector<std::string>& parts, std::string_view between) {
  std::string out;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) out += between;
    out += part;
  }
  return out;
}

std::vector<std::string> wrap(std::string_view text, size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    size_t end = text.find(' ');
    // "31.0 %" stays on one line.
    while (text.substr(std::min(end, text.size())).starts_with(" %")) end = text.find(' ', end + 1);
    end = std::min(end, text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && display_width(line) + 1 + display_width(word) > columns) {
      lines.push_back(std::exchange(line, {}));
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace millrace
