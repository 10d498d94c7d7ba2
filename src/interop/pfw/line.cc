#include "interop/pfw/line.h"

#include <charconv>

#include "base/text/json.h"
#include "interop/encode_text.h"

namespace millrace::interop {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

  bool object(PfwLine& out) {
    return members([&](const PfwValue& key) {
      if (key.raw == "args") return args(out);
      PfwValue ignored;
      return value(slot(key.raw, out, ignored));
    });
  }

  // Only spaces and a comma may follow.
  bool at_end() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == ',' || *at_ == '\r' || *at_ == '\t')) ++at_;
    return at_ == end_;
  }

 private:
  static PfwValue& slot(std::string_view key, PfwLine& out, PfwValue& ignored) {
    if (key == "name") return out.name;
    if (key == "cat") return out.category;
    if (key == "pid") return out.pid;
    if (key == "tid") return out.tid;
    if (key == "ts") return out.time;
    if (key == "dur") return out.duration;
    if (key == "ph") return out.phase;
    return ignored;
  }

  bool args(PfwLine& out) {
    if (at_ == end_ || *at_ != '{') {  // null or missing
      PfwValue ignored;
      return value(ignored);
    }
    return members([&](const PfwValue& key) {
      out.args.push_back({key, {}});
      return value(out.args.back().value);
    });
  }

  void skip_space() {
    while (at_ < end_ && *at_ == ' ') ++at_;
  }

  bool take(char wanted) {
    skip_space();
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }

  // Reads {"key":value,...}. take_value(key) reads each value.
  template <typename TakeValue>
  bool members(TakeValue&& take_value) {
    if (!take('{')) return false;
    if (take('}')) return true;
    while (true) {
      PfwValue key;
      skip_space();
      if (!text(key) || !take(':')) return false;
      skip_space();
      if (!take_value(key)) return false;
      if (take(',')) continue;
      return take('}');
    }
  }

  bool value(PfwValue& out) {
    if (at_ == end_) return false;
    if (*at_ == '"') return text(out);
    if (*at_ == '{' || *at_ == '[') return nested(out);
    const char* begin = at_;
    while (at_ < end_ && *at_ != ',' && *at_ != '}' && *at_ != ']' && *at_ != ' ') ++at_;
    out.raw = {begin, static_cast<size_t>(at_ - begin)};
    if (out.raw.empty()) return false;
    const bool number = *begin == '-' || (*begin >= '0' && *begin <= '9');
    out.kind = number ? PfwValue::Kind::kNumber : PfwValue::Kind::kWord;
    return number || out.raw == "true" || out.raw == "false" || out.raw == "null";
  }

  bool text(PfwValue& out) {
    if (at_ == end_ || *at_ != '"') return false;
    const char* begin = ++at_;
    bool escaped = false;
    while (at_ < end_ && *at_ != '"') {
      if (*at_ == '\\') {
        escaped = true;
        if (++at_ == end_) return false;
      }
      ++at_;
    }
    if (at_ == end_) return false;
    out = {.raw = {begin, static_cast<size_t>(at_ - begin)},
           .kind = PfwValue::Kind::kText,
           .escaped = escaped};
    ++at_;
    return true;
  }

  // A list or object, unparsed, up to its closing bracket.
  bool nested(PfwValue& out) {
    const char* begin = at_;
    size_t depth = 0;
    do {
      if (at_ == end_) return false;
      if (*at_ == '"') {
        PfwValue inside;
        if (!text(inside)) return false;
        continue;
      }
      if (*at_ == '{' || *at_ == '[') ++depth;
      if (*at_ == '}' || *at_ == ']') --depth;
      ++at_;
    } while (depth > 0);
    out = {.raw = {begin, static_cast<size_t>(at_ - begin)}, .kind = PfwValue::Kind::kNested};
    return true;
  }

  const char* at_;
  const char* end_;
};

int hex_digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

// The four digits after \u, or -1.
int code_unit(std::string_view digits) {
  if (digits.size() < 4) return -1;
  int unit = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int digit = hex_digit(digits[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

void append_code_point(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// Reads \uXXXX, and the second half of a surrogate pair if there is one. A lone half becomes
// U+FFFD.
size_t append_unicode_escape(std::string& out, std::string_view after_backslash) {
  const int first = code_unit(after_backslash.substr(1));
  if (first < 0) {
    out += "\\u";
    return 1;
  }
  const bool high = first >= 0xd800 && first < 0xdc00;
  if (high && after_backslash.size() >= 11 && after_backslash.substr(5, 2) == "\\u") {
    const int second = code_unit(after_backslash.substr(7));
    if (second >= 0xdc00 && second < 0xe000) {
      append_code_point(out, 0x10000u + (static_cast<uint32_t>(first - 0xd800) << 10) +
                                 static_cast<uint32_t>(second - 0xdc00));
      return 11;
    }
  }
  const bool half = first >= 0xd800 && first < 0xe000;
  append_code_point(out, half ? 0xfffd : static_cast<uint32_t>(first));
  return 5;
}

void unescape(std::string_view raw, std::string& out) {
  out.clear();
  for (size_t i = 0; i < raw.size();) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out += raw[i++];
      continue;
    }
    const char letter = raw[i + 1];
    if (letter == 'u') {
      i += 1 + append_unicode_escape(out, raw.substr(i + 1));
      continue;
    }
    static constexpr std::string_view kLetters = "nrtbf";
    static constexpr std::string_view kMeanings = "\n\r\t\b\f";
    const size_t known = kLetters.find(letter);
    out += known == std::string_view::npos ? letter : kMeanings[known];
    i += 2;
  }
}

// Writes the document in the one form that the scanner reads.
void append_compact(const Node& node, std::string& out) {
  switch (node.kind()) {
    case Node::Kind::kMap:
      out += '{';
      for (const auto& [name, member] : node.members()) {
        if (out.back() != '{') out += ',';
        append_json_text(out, name);
        out += ':';
        append_compact(member, out);
      }
      out += '}';
      return;
    case Node::Kind::kList:
      out += '[';
      for (const Node& item : node.items()) {
        if (out.back() != '[') out += ',';
        append_compact(item, out);
      }
      out += ']';
      return;
    case Node::Kind::kNull:
      out += "null";
      return;
    case Node::Kind::kBool:
    case Node::Kind::kNumber:
      out += node.text();
      return;
    default:
      append_json_text(out, node.text());
  }
}

}  // namespace

std::string_view PfwValue::text(std::string& storage) const {
  if (!escaped) return raw;
  unescape(raw, storage);
  return storage;
}

bool PfwValue::to_unsigned(uint64_t& number) const {
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), number);
  return error == std::errc() && end == raw.data() + raw.size();
}

bool PfwValue::to_signed(int64_t& number) const {
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), number);
  return error == std::errc() && end == raw.data() + raw.size();
}

const PfwValue* PfwLine::argument(std::string_view key) const {
  for (const PfwArgumentValue& arg : args) {
    if (arg.key.raw == key) return &arg.value;
  }
  return nullptr;
}

bool scan_pfw_line(std::string_view line, PfwLine& out) {
  out.name = out.category = out.pid = out.tid = out.time = out.duration = out.phase = {};
  out.args.clear();
  Scanner scanner(line);
  return scanner.object(out) && scanner.at_end();
}

Status parse_pfw_line(std::string_view line, std::string& storage, PfwLine& out) {
  while (!line.empty() && (line.back() == ',' || line.back() == '\r')) line.remove_suffix(1);
  ASSIGN_OR_RETURN(const Document document, parse_json(line, "line"));
  storage.clear();
  append_compact(document.root, storage);
  if (document.root.kind() == Node::Kind::kMap && scan_pfw_line(storage, out)) return {};
  return fail(Errc::kCorrupt, "found {} instead of an event", describe(document.root));
}

bool to_nanoseconds(const PfwValue& value, uint64_t ns_per_unit, uint64_t& ns) {
  const std::string_view text = value.raw;
  const size_t point = text.find('.');
  uint64_t whole = 0;
  const PfwValue digits{.raw = text.substr(0, point), .kind = PfwValue::Kind::kNumber};
  if (!digits.to_unsigned(whole) || __builtin_mul_overflow(whole, ns_per_unit, &ns)) return false;
  if (point == std::string_view::npos) return true;
  uint64_t weight = ns_per_unit;
  for (const char digit : text.substr(point + 1)) {
    if (digit < '0' || digit > '9') return false;
    weight /= 10;
    if (__builtin_add_overflow(ns, weight * static_cast<uint64_t>(digit - '0'), &ns)) return false;
  }
  return true;
}

}  // namespace millrace::interop
