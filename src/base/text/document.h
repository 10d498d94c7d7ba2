// Document: a JSON or YAML file as a tree whose values know their lines.
//
// Both formats use one tree, so that there is one way to read a configuration (fields.h) and one
// form of error message: "workload.yaml:14: ...". Scalars keep their text: numbers lose no digits,
// and untyped YAML words get their type from the caller.
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
    kPlain,   // an unquoted scalar of YAML; the caller decides its type
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
  // REQUIRES: no member has this name. The parsers check, because they must refuse such files.
  void add(std::string name, Node member) {
    members_.emplace_back(std::move(name), std::move(member));
  }

  // Converts the value. The error says what was expected and what was found.
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

// The names of one map while it is read, to refuse duplicates. Most maps are small, and comparing a
// few strings is faster than a hash table.
class SeenNames {
 public:
  // Returns false if the name was already there.
  bool insert(const std::string& name);

 private:
  static constexpr size_t kFew = 16;
  std::vector<std::string> few_;
  std::unordered_set<std::string> many_;
};

// For messages: "a list", "the string 'yes'".
std::string describe(const Node& node);

struct Document {
  // A document that was combined from several: the lines from `first_line` on are those of `name`.
  struct Part {
    uint32_t first_line = 1;
    std::string name;
    bool has_lines = true;  // false for text without lines, such as a command-line argument
  };

  std::string name;  // the path that the user gave
  Node root;
  std::vector<Part> parts;  // in ascending order; empty: all lines belong to `name`

  // "name:14".
  std::string place_of(uint32_t line) const;

  // An error about a line of this document: "name:14: message".
  Error complain(Errc code, uint32_t line, std::string_view message) const;
};

// Limits on nesting and file size. They are far beyond any real file, and small enough that hostile
// input exhausts neither the stack nor the memory.
inline constexpr unsigned kDocumentDepthMax = 200;
inline constexpr uint64_t kDocumentSizeMaxBytes = uint64_t{64} << 20;

}  // namespace millrace
