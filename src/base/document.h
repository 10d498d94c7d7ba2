// Document: a JSON or YAML file as a tree in which every value knows its line.
//
// One tree for both, so that there is one way to read a configuration (fields.h) and one form of
// complaint: "workload.yaml:14: ...". Scalars keep their text: numbers lose no digits, and YAML's
// untyped words are given a type by whoever asks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/result.h"

namespace millrace {

class Node {
 public:
  enum class Kind {
    kNull,
    kBool,    // true or false of JSON
    kNumber,  // a number of JSON
    kString,  // a string of JSON, a quoted one of YAML
    kPlain,   // an unquoted scalar of YAML: word, number or truth value, as the reader needs
    kList,
    kMap,
  };
  using Member = std::pair<std::string, Node>;

  Node() = default;
  Node(Kind kind, uint32_t line) : kind_(kind), line_(line) {}
  Node(Kind kind, uint32_t line, std::string text)
      : kind_(kind), line_(line), text_(std::move(text)) {}

  Kind kind() const { return kind_; }
  uint32_t line() const { return line_; }  // 1-based
  bool is_null() const { return kind_ == Kind::kNull; }

  // The characters of a scalar, unescaped; empty for null, lists and maps.
  const std::string& text() const { return text_; }

  const std::vector<Node>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }  // in the file's order

  // The member of that name, or nullptr.
  const Node* find(std::string_view name) const;

  void add(Node item) { items_.push_back(std::move(item)); }
  // REQUIRES: no member has this name. The parsers, who must refuse such files, know.
  void add(std::string name, Node member) {
    members_.emplace_back(std::move(name), std::move(member));
  }

  // The value as a type; an error tells what was expected and what is there.
  Result<bool> as_bool() const;
  Result<int64_t> as_int() const;
  Result<uint64_t> as_uint() const;
  Result<double> as_double() const;
  Result<std::string> as_string() const;

 private:
  Error expected(std::string_view what) const;

  Kind kind_ = Kind::kNull;
  uint32_t line_ = 1;
  std::string text_;
  std::vector<Node> items_;
  std::vector<Member> members_;
};

// The names of one map while it is read, to refuse those that come twice. Most maps are small, and
// a look through a few strings is quicker than a hash table.
class SeenNames {
 public:
  // False where the name was there already.
  bool insert(const std::string& name);

 private:
  static constexpr size_t kFew = 16;
  std::vector<std::string> few_;
  std::unordered_set<std::string> many_;
};

// "a list", "the word 'yes'": for messages.
std::string describe(const Node& node);

struct Document {
  std::string name;  // the file's path as the user gave it
  Node root;

  // A complaint about a line of this document: "name:14: message".
  Error complain(Errc code, uint32_t line, std::string_view message) const;
};

// How deep values may be nested, and how large a file may be: far beyond any real one, and small
// enough that hostile input exhausts neither the stack nor the memory.
inline constexpr unsigned kDocumentDepthMax = 200;
inline constexpr uint64_t kDocumentSizeMaxBytes = uint64_t{64} << 20;

}  // namespace millrace
