#include "format/text/number_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/text/text.h"
#include "format/arrays/integer_types.h"

namespace millrace::format {
namespace {

using data::ElementType;

template <typename T>
T element_at(ByteView bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

template <typename T>
void append_value(std::string& out, T value) {
  char digits[64];
  // 64 characters hold any number.
  char* end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  out.append(digits, end);
  if constexpr (std::is_floating_point_v<T>) {
    // "3.0" and not "3", which would be read as an integer.
    if (std::string_view(digits, end).find_first_of(".eni") == std::string_view::npos) out += ".0";
  }
}

constexpr size_t kWord = 4;  // digits and what is between them are copied as words

struct ByteText {
  std::array<char, kWord> digits{};
  uint32_t length = 0;
};

constexpr std::array<ByteText, 256> kByteTexts = [] {
  std::array<ByteText, 256> texts;
  for (size_t value = 0; value < texts.size(); ++value) {
    const size_t digits[] = {value / 100, value / 10 % 10, value % 10};
    ByteText& text = texts[value];
    for (size_t i = value >= 100 ? 0 : value >= 10 ? 1 : 2; i < 3; ++i) {
      text.digits[text.length++] = static_cast<char>('0' + digits[i]);
    }
  }
  return texts;
}();

// Several times as fast as number by number.
void append_bytes_as_numbers(std::string& out, ByteView bytes, std::string_view between) {
  if (bytes.empty()) return;
  char gap[kWord] = {};
  std::memcpy(gap, between.data(), between.size());
  const size_t before = out.size();
  out.resize(before + bytes.size() * (3 + between.size()) + 2 * kWord);
  char* to = out.data() + before;
  for (const std::byte byte : bytes) {
    const ByteText& text = kByteTexts[std::to_integer<size_t>(byte)];
    std::memcpy(to, text.digits.data(), kWord);
    to += text.length;
    std::memcpy(to, gap, kWord);
    to += between.size();
  }
  out.resize(static_cast<size_t>(to - out.data()) - between.size());
}

// False if the value does not fit.
template <typename From, typename To>
bool convert_one(From value, To& out) {
  if constexpr (std::is_floating_point_v<To>) {
    out = static_cast<To>(value);
    return true;
  } else if constexpr (std::is_floating_point_v<From>) {
    if (!(std::abs(value) < From{9.2e18f}) || std::trunc(value) != value) return false;
    return convert_one(static_cast<int64_t>(value), out);
  } else {
    if (!std::in_range<To>(value)) return false;
    out = static_cast<To>(value);
    return true;
  }
}

template <typename From, typename To>
bool convert_all(ByteView bytes, MutableByteView out) {
  const size_t count = bytes.size() / sizeof(From);
  for (size_t i = 0; i < count; ++i) {
    To value{};
    if (!convert_one(element_at<From>(bytes, i), value)) return false;
    std::memcpy(out.data() + i * sizeof(To), &value, sizeof(To));
  }
  return true;
}

template <typename From>
bool convert_from(ByteView bytes, ElementType to, MutableByteView out) {
  if (to == ElementType::kF32) return convert_all<From, float>(bytes, out);
  if (to == ElementType::kF64) return convert_all<From, double>(bytes, out);
  return with_integer_type(to, false,
                           [&]<typename To>(To) { return convert_all<From, To>(bytes, out); });
}

}  // namespace

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || text.empty()) return std::nullopt;
  if (error == std::errc()) return value;
  if constexpr (std::is_floating_point_v<T>) {
    // from_chars does not say whether it is too large or too small; strtod does.
    if (error == std::errc::result_out_of_range) {
      return static_cast<T>(std::strtod(std::string(text).c_str(), nullptr));
    }
  }
  return std::nullopt;
}

template std::optional<int64_t> parse_number<int64_t>(std::string_view text);
template std::optional<float> parse_number<float>(std::string_view text);
template std::optional<double> parse_number<double>(std::string_view text);

Status append_number(std::string& out, const data::ArrayView& array, size_t index) {
  switch (array.type) {
    case ElementType::kF32:
      append_value(out, element_at<float>(array.bytes, index));
      return {};
    case ElementType::kF64:
      append_value(out, element_at<double>(array.bytes, index));
      return {};
    case ElementType::kBool:
      out += array.bytes[index] == std::byte{0} ? '0' : '1';
      return {};
    default:
      break;
  }
  const bool done = with_integer_type(array.type, false, [&]<typename T>(T) {
    const T value = element_at<T>(array.bytes, index);
    // to_chars() writes 8-bit integers as numbers too, but has no overload for them everywhere.
    if constexpr (std::is_signed_v<T>) {
      append_value(out, static_cast<int64_t>(value));
    } else {
      append_value(out, static_cast<uint64_t>(value));
    }
    return true;
  });
  if (done) return {};
  return fail(Errc::kUnsupported, "{} cannot be written as text; convert it to float32 first",
              data::element_name(array.type));
}

Status append_numbers(std::string& out, const data::ArrayView& array, size_t first, size_t count,
                      std::string_view between) {
  if (array.type == ElementType::kU8) {
    append_bytes_as_numbers(out, array.bytes.subspan(first, count), between);
    return {};
  }
  for (size_t i = first; i < first + count; ++i) {
    if (i > first) out += between;
    RETURN_IF_ERROR(append_number(out, array, i));
  }
  return {};
}

bool convert_numbers(ElementType from, ByteView bytes, ElementType to, MutableByteView out) {
  switch (from) {
    case ElementType::kI64:
      return convert_from<int64_t>(bytes, to, out);
    case ElementType::kF32:
      return convert_from<float>(bytes, to, out);
    case ElementType::kF64:
      return convert_from<double>(bytes, to, out);
    case ElementType::kBool:
      return convert_from<uint8_t>(bytes, to, out);
    default:
      return false;
  }
}

bool is_text_field(const Field& field, std::span<const Field> all) {
  if (field.array.type != ElementType::kU8 || field.array.shape.axis_count() != 1) return false;
  return field.is_text || all.size() > 1 || field.name != "data";
}

}  // namespace millrace::format
