// Interpolation: replaces ${train.epochs} in a workload by the value of that key, as OmegaConf
// does.
//
// ${workload.train.epochs} and ${.epochs} (a key of the same section) work too, as do
// ${oc.env:NAME}, ${oc.env:NAME,default} and ${now:%Y-%m-%d}. The value is a scalar or a list;
// lists only where nothing else is in the string. Anything else is refused, with its line.
#include <array>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/text.h"
#include "bench/workload/compose.h"
#include "bench/workload/tree.h"

namespace millrace::bench {
namespace {

using Kind = Node::Kind;

// Far beyond any real file. They end cycles, and files that double a value in each line.
constexpr unsigned kReferenceDepthMax = 16;
constexpr size_t kReferenceCountMax = 1000;
constexpr size_t kCopiedBytesMax = size_t{1} << 20;

bool is_scalar(const Node& node) {
  return node.kind() != Kind::kList && node.kind() != Kind::kMap && !node.is_null();
}

size_t copied_bytes(const Node& node) {
  size_t sum = 1 + node.text().size();
  for (const Node& item : node.items()) sum += 1 + item.text().size();
  return sum;
}

Result<std::string> environment_value(std::string_view arguments) {
  const size_t comma = arguments.find(',');
  const std::string name(arguments.substr(0, comma));
  const char* const value = std::getenv(name.c_str());
  if (value != nullptr && is_utf8(value)) return std::string(value);
  if (comma != std::string_view::npos) return std::string(arguments.substr(comma + 1));
  return fail(Errc::kNotFound, "the environment variable {} is not set", printable(name));
}

Result<std::string> time_now(std::string_view format) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::array<char, 256> text{};
  if (localtime_r(&now, &local) == nullptr) return std::string();
  const size_t length =
      std::strftime(text.data(), text.size(), std::string(format).c_str(), &local);
  if (!is_utf8({text.data(), length})) {
    return fail(Errc::kInvalidArgument, "the form '{}' of the time is not valid",
                printable(format));
  }
  return std::string(text.data(), length);
}

class Interpolation {
 public:
  explicit Interpolation(const Document& document) : document_(document) {}

  // `section`: the path of the map or list that contains the node.
  Result<Node> copy(const Node& node, std::vector<std::string>& section) {
    if (node.kind() == Kind::kPlain && node.text() == "None") return Node(Kind::kNull, node.line());
    if (node.text().find("${") != std::string::npos) return resolved(node, section, 0);
    Node out(node.kind(), node.line(), node.text());
    for (const Node& item : node.items()) {
      ASSIGN_OR_RETURN(Node copied, copy(item, section));
      out.add(std::move(copied));
    }
    for (const auto& [name, member] : node.members()) {
      section.push_back(name);
      Result<Node> copied = copy_member(member, section);
      section.pop_back();
      if (!copied.ok()) return copied;
      out.add(name, *std::move(copied));
    }
    return out;
  }

 private:
  // A scalar is in the section around it; a map or a list is one itself.
  Result<Node> copy_member(const Node& member, std::vector<std::string>& path) {
    if (member.kind() == Kind::kMap || member.kind() == Kind::kList) return copy(member, path);
    std::vector<std::string> around(path.begin(), path.end() - 1);
    return copy(member, around);
  }

  Result<Node> resolved(const Node& node, const std::vector<std::string>& section, unsigned depth) {
    std::string text;
    std::string_view rest = node.text();
    while (true) {
      const size_t begin = rest.find("${");
      text += rest.substr(0, begin);
      if (begin == std::string_view::npos) break;
      const size_t end = rest.find('}', begin);
      if (end == std::string_view::npos) return complain(node, "a ${ has no }");
      const std::string_view expression = rest.substr(begin + 2, end - begin - 2);
      ASSIGN_OR_RETURN(Node value, value_of(node, expression, section, depth));
      const bool is_all = begin == 0 && text.empty() && end + 1 == rest.size();
      if (is_all && rest.size() == node.text().size()) return value;
      if (!is_scalar(value)) {
        return complain(node, fmt::format("${{{}}} is {}, which cannot be part of a string",
                                          printable(expression), describe(value)));
      }
      text += value.text();
      rest.remove_prefix(end + 1);
    }
    return Node(node.kind(), node.line(), std::move(text));
  }

  Result<Node> value_of(const Node& node, std::string_view expression,
                        const std::vector<std::string>& section, unsigned depth) {
    const size_t colon = expression.find(':');
    if (colon != std::string_view::npos) {
      Result<std::string> text = call(expression.substr(0, colon), expression.substr(colon + 1));
      if (!text.ok()) return complain(node, text.error().message());
      return Node(Kind::kPlain, node.line(), *std::move(text));
    }
    ASSIGN_OR_RETURN(const Place place, place_of(node, expression, section));
    if (depth >= kReferenceDepthMax || ++reference_count_ > kReferenceCountMax) {
      return complain(node, "too many ${...} refer to each other");
    }
    copied_bytes_ += copied_bytes(*place.value);
    if (copied_bytes_ > kCopiedBytesMax) return complain(node, "the values of ${...} are too long");
    ASSIGN_OR_RETURN(const Node value, resolve_again(*place.value, place.section, depth + 1));
    copied_bytes_ += copied_bytes(value);
    return moved_to(value, node.line());
  }

  static Result<std::string> call(std::string_view function, std::string_view arguments) {
    if (function == "oc.env") return environment_value(arguments);
    if (function == "now") return time_now(arguments);
    return fail(Errc::kUnsupported, "${{{}:...}} is not supported; write the value",
                printable(function));
  }

  struct Place {
    const Node* value = nullptr;
    std::vector<std::string> section;  // of the value
  };

  Result<Place> place_of(const Node& node, std::string_view expression,
                         const std::vector<std::string>& section) const {
    std::vector<std::string> path;
    std::string_view name = expression;
    if (name.starts_with('.')) {
      path = section;
      name.remove_prefix(1);
      for (; name.starts_with('.') && !path.empty(); name.remove_prefix(1)) path.pop_back();
    }
    std::vector<std::string> names = path_of(name);
    if (path.empty() && names.size() > 1 && names.front() == "workload") names.erase(names.begin());
    path.insert(path.end(), names.begin(), names.end());
    const Node* const value = find_at(document_.root, path);
    path.pop_back();
    if (value != nullptr && value->kind() != Kind::kMap) return Place{value, std::move(path)};
    return complain(node, value == nullptr
                              ? fmt::format("${{{}}}: there is no such key", printable(expression))
                              : fmt::format("${{{}}} is a section", printable(expression)));
  }

  Result<Node> resolve_again(const Node& value, const std::vector<std::string>& section,
                             unsigned depth) {
    if (value.kind() != Kind::kList) {
      if (value.text().find("${") == std::string::npos) return value;
      return resolved(value, section, depth);
    }
    Node out(Kind::kList, value.line());
    for (const Node& item : value.items()) {
      const bool is_simple = is_scalar(item) && item.text().find("${") == std::string::npos;
      if (!is_simple) return complain(item, "only a list of plain values can be referred to");
      out.add(item);
    }
    return out;
  }

  // Errors about the value name the line that refers to it.
  static Node moved_to(const Node& value, uint32_t line) {
    Node out(value.kind(), line, value.text());
    for (const Node& item : value.items()) out.add(Node(item.kind(), line, item.text()));
    return out;
  }

  Error complain(const Node& node, std::string_view message) const {
    return document_.complain(Errc::kInvalidArgument, node.line(), message);
  }

  const Document& document_;
  size_t reference_count_ = 0;
  size_t copied_bytes_ = 0;
};

}  // namespace

Result<Node> interpolated(const Document& document) {
  std::vector<std::string> section;
  return Interpolation(document).copy(document.root, section);
}

}  // namespace millrace::bench
