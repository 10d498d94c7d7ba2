#include <fmt/ranges.h>

#include <cstring>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/text/text.h"
#include "format/arrays/npy.h"

namespace millrace::format {
namespace {

using data::ElementType;

constexpr std::string_view kMagic = "\x93NUMPY";
// Far more than eight axes need. numpy itself refuses headers over 10,000 bytes.
constexpr uint64_t kHeaderBytesMax = 65536;

struct TypeCode {
  std::string_view code;  // without the byte order
  ElementType type;
};

constexpr TypeCode kTypes[] = {
    {"u1", ElementType::kU8},  {"i1", ElementType::kI8},  {"u2", ElementType::kU16},
    {"i2", ElementType::kI16}, {"u4", ElementType::kU32}, {"i4", ElementType::kI32},
    {"u8", ElementType::kU64}, {"i8", ElementType::kI64}, {"f2", ElementType::kF16},
    {"f4", ElementType::kF32}, {"f8", ElementType::kF64}, {"b1", ElementType::kBool},
};

// Parses the Python dictionary of the header, as far as numpy uses Python's syntax.
class Dictionary {
 public:
  explicit Dictionary(std::string_view text) : text_(text) {}

  Result<NpyHeader> parse() {
    RETURN_IF_ERROR(expect('{'));
    while (!take('}')) {
      ASSIGN_OR_RETURN(const std::string_view key, quoted());
      RETURN_IF_ERROR(expect(':'));
      RETURN_IF_ERROR(value_of(key));
      if (!take(',')) {
        RETURN_IF_ERROR(expect('}'));
        break;
      }
    }
    return finish();
  }

 private:
  Status value_of(std::string_view key) {
    if (key == "descr") {
      if (peek() == '[') {
        return fail(Errc::kUnsupported,
                    "the array has records with named fields; save each field as a separate array, "
                    "or all of them with numpy.savez");
      }
      ASSIGN_OR_RETURN(code_, quoted());
      return {};
    }
    if (key == "fortran_order") {
      if (take_word("False")) {
        fortran_ = false;
      } else if (take_word("True")) {
        fortran_ = true;
      } else {
        return unexpected("True or False");
      }
      return {};
    }
    if (key == "shape") return shape();
    return fail(Errc::kCorrupt, "the header has an unknown key '{}'", printable(key));
  }

  Status shape() {
    RETURN_IF_ERROR(expect('('));
    shape_.emplace();
    while (!take(')')) {
      ASSIGN_OR_RETURN(const uint64_t length, integer());
      shape_->push_back(length);
      take('L');  // Python 2's long integers
      if (!take(',')) {
        RETURN_IF_ERROR(expect(')'));
        break;
      }
    }
    return {};
  }

  Result<NpyHeader> finish() const {
    if (!code_ || !fortran_ || !shape_) {
      return fail(Errc::kCorrupt, "the header lacks '{}'",
                  !code_ ? "descr" : (!fortran_ ? "fortran_order" : "shape"));
    }
    NpyHeader header;
    ASSIGN_OR_RETURN(header.type, type_of(*code_));
    ASSIGN_OR_RETURN(header.shape, data::Shape::make(*shape_));
    // If at most one axis has more than one element, both orders are the same.
    size_t long_axes = 0;
    for (const uint64_t length : *shape_) long_axes += length > 1 ? 1 : 0;
    if (*fortran_ && long_axes > 1) {
      return fail(Errc::kUnsupported,
                  "the array of shape {} is in Fortran order; save it with "
                  "numpy.save(file, numpy.ascontiguousarray(array))",
                  header.shape.text());
    }
    return header;
  }

  static Result<ElementType> type_of(std::string_view code) {
    if (!code.empty() && code[0] == '>') {
      return fail(Errc::kUnsupported,
                  "the elements are big-endian ('{}'); save the array as "
                  "array.astype('<{}')",
                  printable(code), printable(code.substr(1)));
    }
    const std::string_view plain =
        !code.empty() && std::string_view("<|=").find(code[0]) != std::string_view::npos
            ? code.substr(1)
            : code;
    for (const TypeCode& known : kTypes) {
      if (known.code == plain) return known.type;
    }
    return fail(Errc::kUnsupported,
                "elements of type '{}' are not supported; use booleans, integers of 8 to 64 bits "
                "or floats of 16 to 64",
                printable(code));
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  char peek() {
    skip_spaces();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char wanted) {
    if (peek() != wanted || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Status expect(char wanted) {
    if (take(wanted)) return {};
    return unexpected(fmt::format("'{}'", wanted));
  }

  Result<std::string_view> quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return unexpected("a quoted word");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return unexpected("a quoted word");
    const std::string_view word = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return word;
  }

  Result<uint64_t> integer() {
    skip_spaces();
    const size_t begin = at_;
    uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, uint64_t{10}, &value) ||
          __builtin_add_overflow(value, static_cast<uint64_t>(text_[at_] - '0'), &value)) {
        return fail(Errc::kCorrupt,
                    "the header has an axis whose length does not fit into 64 bits");
      }
    }
    if (at_ == begin) return unexpected("a length");
    return value;
  }

  Error unexpected(std::string_view wanted) const {
    return fail(Errc::kCorrupt, "the header should have {} at character {}: '{}'", wanted, at_,
                printable(text_.substr(0, 100)));
  }

  std::string_view text_;
  size_t at_ = 0;
  std::optional<std::string_view> code_;
  std::optional<bool> fortran_;
  std::optional<std::vector<uint64_t>> shape_;
};

struct HeaderSize {
  size_t prefix_bytes;
  uint64_t text_bytes;
};

Result<HeaderSize> header_size(ByteView prefix) {
  ByteReader reader(prefix);
  const auto magic = reader.take_text(kMagic.size());
  if (!magic.ok() || *magic != kMagic) {
    return fail(Errc::kCorrupt, "this is not an npy file: it does not begin with \\x93NUMPY");
  }
  ASSIGN_OR_RETURN(const uint8_t major, reader.read<uint8_t>());
  RETURN_IF_ERROR(reader.skip(1));
  if (major < 1 || major > 3) {
    return fail(Errc::kUnsupported, "npy version {} is not supported; this build reads 1 to 3",
                major);
  }
  HeaderSize place{};
  if (major == 1) {
    ASSIGN_OR_RETURN(place.text_bytes, reader.read<uint16_t>());
  } else {
    ASSIGN_OR_RETURN(place.text_bytes, reader.read<uint32_t>());
  }
  place.prefix_bytes = reader.position();
  if (place.text_bytes > kHeaderBytesMax) {
    return fail(Errc::kCorrupt, "the npy header claims {} bytes; at most {} are allowed",
                place.text_bytes, kHeaderBytesMax);
  }
  return place;
}

}  // namespace

Result<uint64_t> npy_header_bytes(ByteView prefix) {
  ASSIGN_OR_RETURN(const HeaderSize place, header_size(prefix));
  return place.prefix_bytes + place.text_bytes;
}

Result<NpyHeader> parse_npy_header(ByteView bytes) {
  ASSIGN_OR_RETURN(const HeaderSize place, header_size(bytes));
  ByteReader reader(bytes);
  RETURN_IF_ERROR(reader.skip(place.prefix_bytes));
  ASSIGN_OR_RETURN(const std::string_view text,
                   reader.take_text(static_cast<size_t>(place.text_bytes)));
  ASSIGN_OR_RETURN(NpyHeader header, Dictionary(text).parse());
  header.size_bytes = place.prefix_bytes + place.text_bytes;
  return header;
}

Result<data::ArrayView> parse_npy(ByteView file) {
  ASSIGN_OR_RETURN(const NpyHeader header, parse_npy_header(file));
  const uint64_t there = file.size() - header.size_bytes;
  if (header.data_bytes() != there) {
    return fail(Errc::kCorrupt,
                "an array of shape {} of {} takes {} bytes, but {} follow the npy header",
                header.shape.text(), data::element_name(header.type), header.data_bytes(), there);
  }
  return data::ArrayView{.type = header.type,
                         .shape = header.shape,
                         .bytes = file.subspan(static_cast<size_t>(header.size_bytes))};
}

Result<std::string> npy_header(data::ElementType type, const data::Shape& shape) {
  std::string_view code;
  for (const TypeCode& known : kTypes) {
    if (known.type == type) code = known.code;
  }
  if (code.empty()) {
    return fail(Errc::kUnsupported, "NumPy has no {}; write the array as uint16 or float32",
                data::element_name(type));
  }
  const char order = data::element_bytes(type) == 1 ? '|' : '<';
  std::string text =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}{}), }}", order, code,
                  fmt::join(shape.lengths(), ", "), shape.axis_count() == 1 ? "," : "");
  const size_t prefix = kMagic.size() + 4;
  text.append(63 - (prefix + text.size()) % 64, ' ');
  text += '\n';
  std::string header(kMagic);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace millrace::format
