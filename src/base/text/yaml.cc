#include "base/text/yaml.h"

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text/text.h"

namespace millrace {
namespace {

using Kind = Node::Kind;

// Aliases can turn a small file into a huge tree; real workload files have a few hundred values.
constexpr size_t kValueCountMax = 1'000'000;

uint32_t line_of(const YAML::Mark& mark) {
  return mark.is_null() ? 1 : static_cast<uint32_t>(mark.line + 1);
}

// Builds our tree from parser events. Not YAML::LoadAll: in yaml-cpp 0.7 it fills the memory with
// documents if a file begins with a comma, and its tree accepts duplicate keys.
//
// To refuse a file, it throws yaml-cpp's own exception; parse_yaml catches it like those of the
// parser.
class TreeBuilder final : public YAML::EventHandler {
 public:
  Node take_root() && { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++document_count_ > 1)
      refuse(mark, "there is more than one document in the file; keep one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    count(mark, 1);
    finish(mark, Node(Kind::kNull, line_of(mark)), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    count(mark, 1);
    if (!is_utf8(value)) refuse(mark, "a string is not valid UTF-8");
    // yaml-cpp gives "?" to a plain scalar and "!" to a quoted one.
    const Kind kind = tag == "!" ? Kind::kString : Kind::kPlain;
    finish(mark, Node(kind, line_of(mark), value), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) refuse(mark, "an alias is inside the value it refers to");
    count_all(mark, found->second);
    finish(mark, found->second, YAML::NullAnchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, Kind::kList);
  }
  void OnSequenceEnd() override { end(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    begin(mark, tag, anchor, Kind::kMap);
  }
  void OnMapEnd() override { end(); }

 private:
  // A list or a map that is not complete yet.
  struct Open {
    Node node;
    YAML::anchor_t anchor;
    YAML::Mark mark;
    bool has_key = false;
    std::string key;
    uint32_t key_line = 1;
    SeenNames keys = {};
  };

  [[noreturn]] static void refuse(const YAML::Mark& mark, const std::string& message) {
    throw YAML::ParserException(mark, message);
  }

  static void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(mark, fmt::format("the tag '{}' is not supported; leave it out", printable(tag)));
  }

  void count(const YAML::Mark& mark, size_t values) {
    value_count_ += values;
    if (value_count_ <= kValueCountMax) return;
    refuse(mark, fmt::format("the file has more than {} values, counting aliases", kValueCountMax));
  }

  void count_all(const YAML::Mark& mark, const Node& node) {
    // A long string counts as several values, because an alias copies it.
    count(mark, 1 + node.text().size() / 64);
    for (const Node& item : node.items()) count_all(mark, item);
    for (const auto& [name, member] : node.members()) count_all(mark, member);
  }

  void begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Kind kind) {
    check_tag(mark, tag);
    count(mark, 1);
    if (open_.size() >= kDocumentDepthMax) {
      refuse(mark, fmt::format("values are nested more than {} deep", kDocumentDepthMax));
    }
    // A section is where its key is, not where its first value is.
    const bool is_member = !open_.empty() && open_.back().has_key;
    const uint32_t line = is_member ? open_.back().key_line : line_of(mark);
    open_.push_back({Node(kind, line), anchor, mark});
  }

  void end() {
    Open ended = std::move(open_.back());
    open_.pop_back();
    finish(ended.mark, std::move(ended.node), ended.anchor);
  }

  // Handles a complete value: the root, an item, a key or the value of a key.
  void finish(const YAML::Mark& mark, Node node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchored_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind() == Kind::kList) {
      parent.node.add(std::move(node));
    } else if (!parent.has_key) {
      take_key(mark, parent, node);
    } else {
      parent.node.add(std::exchange(parent.key, {}), std::move(node));
      parent.has_key = false;
    }
  }

  static void take_key(const YAML::Mark& mark, Open& map, const Node& node) {
    const bool is_word = node.kind() == Kind::kPlain || node.kind() == Kind::kString;
    if (!is_word) refuse(mark, "a key must be a string");
    if (node.text() == "<<") refuse(mark, "merge keys (<<) are not supported; repeat the keys");
    if (!map.keys.insert(node.text())) {
      refuse(mark, fmt::format("the key '{}' appears twice", printable(node.text())));
    }
    map.key = node.text();
    map.key_line = node.line();
    map.has_key = true;
  }

  Node root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Node> anchored_;
  size_t value_count_ = 0;
  size_t document_count_ = 0;
};

}  // namespace

Result<Document> parse_yaml(std::string_view text, std::string name) {
  Document document;
  document.name = std::move(name);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder;
    while (parser.HandleNextDocument(builder)) {
    }
    document.root = std::move(builder).take_root();
    return document;
  } catch (const YAML::Exception& exception) {
    return document.complain(Errc::kCorrupt, line_of(exception.mark), printable(exception.msg));
  } catch (const std::exception& exception) {
    return document.complain(Errc::kCorrupt, 1, exception.what());
  }
}

}  // namespace millrace
