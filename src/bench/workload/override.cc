#include "bench/workload/override.h"

#include <algorithm>

#include "base/text/text.h"
#include "bench/workload/tree.h"

namespace millrace::bench {
namespace {

using Kind = Node::Kind;

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

Node scalar(std::string_view text) {
  if (text == "null" || text == "~") return Node(Kind::kNull, 1);
  return Node(Kind::kPlain, 1, std::string(text));
}

// Reads a value. Not by parse_yaml: in Hydra {a:1} is a map, in YAML it has one key "a:1". And
// overrides work in builds without YAML.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : rest_(trimmed(text)) {}

  Result<Node> whole() {
    if (rest_.empty()) return Node(Kind::kString, 1);
    if (std::string_view("[{'\"").find(rest_[0]) == std::string_view::npos) return scalar(rest_);
    ASSIGN_OR_RETURN(Node node, value(""));
    skip_blanks();
    if (!rest_.empty()) return unexpected("the end");
    return node;
  }

 private:
  // `stops`: what ends a scalar.
  Result<Node> value(std::string_view stops) {
    skip_blanks();
    if (++depth_ > kDocumentDepthMax) {
      return fail(Errc::kInvalidArgument, "values are nested more than {} deep", kDocumentDepthMax);
    }
    Result<Node> node = rest_.starts_with('[')   ? list()
                        : rest_.starts_with('{') ? map()
                                                 : word(stops);
    --depth_;
    return node;
  }

  Result<Node> list() {
    Node out(Kind::kList, 1);
    rest_.remove_prefix(1);
    if (take(']')) return out;
    while (true) {
      ASSIGN_OR_RETURN(Node item, value(",]"));
      out.add(std::move(item));
      if (take(']')) return out;
      if (!take(',')) return unexpected("',' or ']'");
    }
  }

  Result<Node> map() {
    Node out(Kind::kMap, 1);
    SeenNames names;
    rest_.remove_prefix(1);
    if (take('}')) return out;
    while (true) {
      skip_blanks();
      ASSIGN_OR_RETURN(const Node key, word(":,}"));
      if (!take(':')) return unexpected("':'");
      if (!names.insert(key.text())) {
        return fail(Errc::kInvalidArgument, "the key '{}' appears twice", printable(key.text()));
      }
      ASSIGN_OR_RETURN(Node member, value(",}"));
      out.add(key.text(), std::move(member));
      if (take('}')) return out;
      if (!take(',')) return unexpected("',' or '}'");
    }
  }

  Result<Node> word(std::string_view stops) {
    if (rest_.starts_with('\'') || rest_.starts_with('"')) return quoted();
    size_t end = 0;
    while (end < rest_.size() && stops.find(rest_[end]) == std::string_view::npos) {
      // The braces of ${a.b} are part of the word.
      const size_t close = rest_.substr(end).starts_with("${") ? rest_.find('}', end) : end;
      end = std::min(close, rest_.size() - 1) + 1;
    }
    const std::string_view text = trimmed(rest_.substr(0, end));
    if (text.empty()) return unexpected("a value");
    rest_.remove_prefix(end);
    return scalar(text);
  }

  Result<Node> quoted() {
    const char quote = rest_[0];
    std::string text;
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        rest_.remove_prefix(i + 1);
        return Node(Kind::kString, 1, std::move(text));
      }
      const bool is_escape = rest_[i] == '\\' && i + 1 < rest_.size() &&
                             (rest_[i + 1] == quote || rest_[i + 1] == '\\');
      if (is_escape) ++i;
      text += rest_[i];
    }
    return fail(Errc::kInvalidArgument, "the quote {} is not closed", quote);
  }

  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kBlanks), rest_.size()));
  }

  bool take(char c) {
    skip_blanks();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  Error unexpected(std::string_view wanted) const {
    if (rest_.empty()) return fail(Errc::kInvalidArgument, "expected {}, but it ends", wanted);
    return fail(Errc::kInvalidArgument, "expected {} before '{}'", wanted,
                printable(shorten(rest_, 40)));
  }

  std::string_view rest_;
  unsigned depth_ = 0;
};

// Without the "+", "++" and "workload." of Hydra.
Result<std::vector<std::string>> path_in(std::string_view key) {
  std::vector<std::string> path = path_of(key);
  if (path.size() > 1 && path.front() == "workload") path.erase(path.begin());
  const bool is_whole = std::none_of(path.begin(), path.end(), [](const std::string& name) {
    return name.empty() || name.find_first_of(" \t\r\n=[]{},:'\"") != std::string::npos;
  });
  if (is_whole && path.size() <= kDocumentDepthMax) return path;
  return fail(Errc::kInvalidArgument, "'{}' is not a key; write for example train.epochs=1",
              printable(key));
}

Result<Override> deletion_of(std::string_view text) {
  const std::string_view key = trimmed(text.substr(1, text.find('=') - 1));
  Override out{.kind = Override::Kind::kDelete, .path = {}, .value = {}};
  ASSIGN_OR_RETURN(out.path, path_in(key));
  if (out.path.front() == "hydra") out.kind = Override::Kind::kIgnored;
  return out;
}

Result<Override> override_of(std::string_view text) {
  if (!is_utf8(text)) return fail(Errc::kInvalidArgument, "it is not valid UTF-8");
  if (text.starts_with('~')) return deletion_of(text);
  std::string_view rest = text;
  for (int plus = 0; plus < 2 && rest.starts_with('+'); ++plus) rest.remove_prefix(1);
  const size_t equals = rest.find('=');
  if (equals == std::string_view::npos) {
    return fail(Errc::kInvalidArgument, "expected key=value, for example train.epochs=1");
  }
  const std::string_view key = trimmed(rest.substr(0, equals));
  Override out;
  ASSIGN_OR_RETURN(out.path, path_in(key));
  ASSIGN_OR_RETURN(out.value, ValueReader(rest.substr(equals + 1)).whole());
  if (key == "workload") {
    // workload={...} changes several keys of the workload.
    if (out.value.kind() == Kind::kMap) {
      out.path.clear();
    } else {
      out.kind = Override::Kind::kWorkload;
    }
  } else if (key == "hydra.run.dir") {
    out.path = {"output", "folder"};
  } else if (out.path.front() == "hydra" || key.starts_with("hydra/")) {
    out.kind = Override::Kind::kIgnored;
  }
  return out;
}

}  // namespace

Result<Override> parse_override(std::string_view text) {
  return override_of(trimmed(text)).within(override_name(text));
}

std::string override_name(std::string_view text) {
  return fmt::format("the override '{}'", printable(shorten(text, 80)));
}

}  // namespace millrace::bench
