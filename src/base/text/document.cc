#include "base/text/document.h"

#include <algorithm>
#include <charconv>

#include "base/text/text.h"

namespace millrace {
namespace {

template <typename T>
bool parse_whole(std::string_view text, T& out) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, out);
  return error == std::errc() && stop == end;
}

bool may_be_number(Node::Kind kind) {
  return kind == Node::Kind::kNumber || kind == Node::Kind::kPlain;
}

}  // namespace

const Node* Node::find(std::string_view name) const {
  for (const Member& member : members_) {
    if (member.first == name) return &member.second;
  }
  return nullptr;
}

Result<bool> Node::as_bool() const {
  const bool may_be = kind_ == Kind::kBool || kind_ == Kind::kPlain;
  // The spellings of booleans in YAML 1.1 that real workload files use.
  for (const std::string_view word : {"true", "True", "TRUE", "yes", "Yes", "on", "On"}) {
    if (may_be && text_ == word) return true;
  }
  for (const std::string_view word : {"false", "False", "FALSE", "no", "No", "off", "Off"}) {
    if (may_be && text_ == word) return false;
  }
  return expected("true or false");
}

Result<int64_t> Node::as_int() const {
  int64_t value = 0;
  if (may_be_number(kind_) && parse_whole(text_, value)) return value;
  return expected("a whole number");
}

Result<uint64_t> Node::as_uint() const {
  uint64_t value = 0;
  if (may_be_number(kind_) && parse_whole(text_, value)) return value;
  return expected("a whole number that is not negative");
}

Result<double> Node::as_double() const {
  double value = 0;
  if (may_be_number(kind_) && parse_whole(text_, value)) return value;
  return expected("a number");
}

Result<std::string> Node::as_string() const {
  if (kind_ == Kind::kString || kind_ == Kind::kPlain) return text_;
  return expected("a string");
}

Error Node::expected(std::string_view what) const {
  return fail(Errc::kInvalidArgument, "expected {}, found {}", what, describe(*this));
}

bool SeenNames::insert(const std::string& name) {
  if (!many_.empty()) return many_.insert(name).second;
  if (std::find(few_.begin(), few_.end(), name) != few_.end()) return false;
  few_.push_back(name);
  if (few_.size() > kFew) many_.insert(few_.begin(), few_.end());
  return true;
}

std::string describe(const Node& node) {
  const auto shown = [&] { return printable(shorten(node.text(), 40)); };
  switch (node.kind()) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kBool:
      return shown();
    case Node::Kind::kNumber:
      return fmt::format("the number {}", shown());
    case Node::Kind::kString:
      return fmt::format("the string '{}'", shown());
    case Node::Kind::kPlain:
      return fmt::format("'{}'", shown());
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a section with keys";
  }
  return "something else";
}

std::string Document::place_of(uint32_t line) const {
  const auto after =
      std::upper_bound(parts.begin(), parts.end(), line,
                       [](uint32_t wanted, const Part& part) { return wanted < part.first_line; });
  if (after == parts.begin()) return fmt::format("{}:{}", name, line);
  const Part& part = *(after - 1);
  if (!part.has_lines) return part.name;
  return fmt::format("{}:{}", part.name, line - part.first_line + 1);
}

Error Document::complain(Errc code, uint32_t line, std::string_view message) const {
  return fail(code, "{}: {}", place_of(line), message);
}

}  // namespace millrace
