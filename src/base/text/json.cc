#include "base/text/json.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"

namespace millrace {
namespace {

using Kind = Node::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& out, uint32_t code_point) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3f));
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

class JsonParser {
 public:
  JsonParser(std::string_view text, std::string name) : rest_(text) {
    document_.name = std::move(name);
  }

  Result<Document> parse() && {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);  // byte order mark
    ASSIGN_OR_RETURN(document_.root, value(0));
    skip_space();
    if (!rest_.empty()) return complain("expected the end of the file, found {}", here());
    return std::move(document_);
  }

 private:
  Result<Node> value(unsigned depth) {
    if (depth > kDocumentDepthMax) {
      return complain("values are nested more than {} deep", kDocumentDepthMax);
    }
    skip_space();
    if (rest_.empty()) return complain("expected a value, found the end of the file");
    switch (rest_.front()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"': {
        const uint32_t line = line_;
        ASSIGN_OR_RETURN(std::string text, string());
        return Node(Kind::kString, line, std::move(text));
      }
      case 't':
        return word("true", Kind::kBool);
      case 'f':
        return word("false", Kind::kBool);
      case 'n':
        return word("null", Kind::kNull);
      default:
        return number();
    }
  }

  Result<Node> object(unsigned depth) {
    Node node(Kind::kMap, line_);
    rest_.remove_prefix(1);
    SeenNames names;
    if (skip_past('}')) return node;
    do {
      skip_space();
      if (!rest_.starts_with('"')) return complain("expected a name in quotes, found {}", here());
      ASSIGN_OR_RETURN(std::string name, string());
      if (!names.insert(name)) {
        return complain("the name '{}' appears twice", printable(name));
      }
      if (!skip_past(':')) return complain("expected ':' after a name, found {}", here());
      ASSIGN_OR_RETURN(Node member, value(depth + 1));
      node.add(std::move(name), std::move(member));
    } while (skip_past(','));
    if (!skip_past('}')) return complain("expected ',' or '}}' in an object, found {}", here());
    return node;
  }

  Result<Node> array(unsigned depth) {
    Node node(Kind::kList, line_);
    rest_.remove_prefix(1);
    if (skip_past(']')) return node;
    do {
      ASSIGN_OR_RETURN(Node item, value(depth + 1));
      node.add(std::move(item));
    } while (skip_past(','));
    if (!skip_past(']')) return complain("expected ',' or ']' in a list, found {}", here());
    return node;
  }

  Result<Node> word(std::string_view expected, Kind kind) {
    if (!rest_.starts_with(expected)) return complain("expected a value, found {}", here());
    rest_.remove_prefix(expected.size());
    return Node(kind, line_, kind == Kind::kNull ? std::string() : std::string(expected));
  }

  Result<Node> number() {
    size_t length = rest_.starts_with('-') ? 1 : 0;
    const auto digits = [&] {
      const size_t start = length;
      while (length < rest_.size() && is_digit(rest_[length])) ++length;
      return length - start;
    };
    const auto at = [&](char c) { return length < rest_.size() && rest_[length] == c; };
    const bool leading_zero = at('0');
    const size_t whole = digits();
    if (whole == 0) return complain("expected a value, found {}", here());
    if (leading_zero && whole > 1) return complain("a number has a leading zero");
    if (at('.')) {
      ++length;
      if (digits() == 0) return complain("a number ends with its decimal point");
    }
    if (at('e') || at('E')) {
      ++length;
      if (at('+') || at('-')) ++length;
      if (digits() == 0) return complain("a number has no digits in its exponent");
    }
    Node node(Kind::kNumber, line_, std::string(rest_.substr(0, length)));
    rest_.remove_prefix(length);
    return node;
  }

  Result<std::string> string() {
    std::string out;
    rest_.remove_prefix(1);
    for (;;) {
      const size_t plain = plain_length();
      if (plain == rest_.size()) return complain("a string has no closing quote");
      if (!is_utf8(rest_.substr(0, plain))) return complain("a string is not valid UTF-8");
      out += rest_.substr(0, plain);
      const char special = rest_[plain];
      rest_.remove_prefix(plain + 1);
      if (special == '"') return out;
      if (special != '\\') {
        return complain("a string contains the control character {:#04x}; write it as an escape",
                        static_cast<unsigned>(static_cast<unsigned char>(special)));
      }
      RETURN_IF_ERROR(escape(out));
    }
  }

  // Number of bytes up to the closing quote, an escape or a control character.
  size_t plain_length() const {
    size_t length = 0;
    while (length < rest_.size() && rest_[length] != '"' && rest_[length] != '\\' &&
           static_cast<unsigned char>(rest_[length]) >= 0x20) {
      ++length;
    }
    return length;
  }

  Status escape(std::string& out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char letter = rest_.empty() ? '\0' : rest_.front();
    if (letter == 'u') {
      rest_.remove_prefix(1);
      return unicode_escape(out);
    }
    const size_t index = letter == '\0' ? std::string_view::npos : kLetters.find(letter);
    if (index == std::string_view::npos) return complain("a string has an unknown escape");
    out += kMeanings[index];
    rest_.remove_prefix(1);
    return {};
  }

  Status unicode_escape(std::string& out) {
    ASSIGN_OR_RETURN(const uint32_t first, four_hex_digits());
    if (first >= 0xdc00 && first <= 0xdfff) return complain("an escape is half a surrogate pair");
    if (first < 0xd800 || first > 0xdbff) {
      append_utf8(out, first);
      return {};
    }
    if (!rest_.starts_with("\\u")) return complain("an escape is half a surrogate pair");
    rest_.remove_prefix(2);
    ASSIGN_OR_RETURN(const uint32_t second, four_hex_digits());
    if (second < 0xdc00 || second > 0xdfff) return complain("an escape is half a surrogate pair");
    append_utf8(out, 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
    return {};
  }

  Result<uint32_t> four_hex_digits() {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) {
      const int digit = i < rest_.size() ? hex_digit(rest_[i]) : -1;
      if (digit < 0) return complain("an escape needs four hexadecimal digits");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    rest_.remove_prefix(4);
    return value;
  }

  void skip_space() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\n') ++line_;
      if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return;
      rest_.remove_prefix(1);
    }
  }

  bool skip_past(char expected) {
    skip_space();
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // The character at the cursor, for a message.
  std::string here() const {
    if (rest_.empty()) return "the end of the file";
    const size_t length = std::max<size_t>(utf8_length(rest_), 1);
    return fmt::format("'{}'", printable(rest_.substr(0, length)));
  }

  template <typename... Args>
  Error complain(fmt::format_string<Args...> format, Args&&... args) const {
    return document_.complain(Errc::kCorrupt, line_,
                              fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view rest_;
  uint32_t line_ = 1;
  Document document_;
};

}  // namespace

Result<Document> parse_json(std::string_view text, std::string name) {
  return JsonParser(text, std::move(name)).parse();
}

}  // namespace millrace
