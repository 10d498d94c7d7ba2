#include "base/text/fields.h"

#include <algorithm>

#include "base/text/spelling.h"
#include "base/text/text.h"
#include "base/text/units.h"

namespace millrace {
namespace {

const Node& empty_section() {
  static const Node empty;
  return empty;
}

// Applies `convert` to each item of a list.
template <typename T, typename Convert>
Result<std::vector<T>> each_of(const Node& list, Convert convert) {
  if (list.kind() != Node::Kind::kList) {
    return fail(Errc::kInvalidArgument, "expected a list, found {}", describe(list));
  }
  std::vector<T> out;
  out.reserve(list.items().size());
  for (const Node& item : list.items()) {
    ASSIGN_OR_RETURN(T value, convert(item));
    out.push_back(std::move(value));
  }
  return out;
}

}  // namespace

Result<Fields> Fields::of(const Document& document, const Node& section, std::string prefix) {
  if (section.kind() == Node::Kind::kMap || section.is_null()) {
    return Fields(document, section, std::move(prefix));
  }
  return document.complain(Errc::kInvalidArgument, section.line(),
                           fmt::format("{}{}expected a section with keys, found {}", prefix,
                                       prefix.empty() ? "" : ": ", describe(section)));
}

template <typename T, typename Convert>
Status Fields::read_as(std::string_view key, T& out, Convert convert) {
  const Node* node = value_of(key);
  if (node == nullptr) return {};
  Result<T> value = convert(*node);
  if (!value.ok()) return at(*node, key, value.error());
  out = *std::move(value);
  return {};
}

Status Fields::read(std::string_view key, bool& out) {
  return read_as(key, out, [](const Node& node) { return node.as_bool(); });
}

Status Fields::read(std::string_view key, int64_t& out) {
  return read_as(key, out, [](const Node& node) { return node.as_int(); });
}

Status Fields::read(std::string_view key, uint64_t& out) {
  return read_as(key, out, [](const Node& node) { return node.as_uint(); });
}

Status Fields::read(std::string_view key, double& out) {
  return read_as(key, out, [](const Node& node) { return node.as_double(); });
}

Status Fields::read(std::string_view key, std::string& out) {
  return read_as(key, out, [](const Node& node) { return node.as_string(); });
}

Status Fields::read(std::string_view key, std::vector<std::string>& out) {
  return read_as(key, out, [](const Node& node) {
    return each_of<std::string>(node, [](const Node& item) { return item.as_string(); });
  });
}

Status Fields::read(std::string_view key, std::vector<double>& out) {
  return read_as(key, out, [](const Node& node) {
    return each_of<double>(node, [](const Node& item) { return item.as_double(); });
  });
}

Status Fields::read(std::string_view key, std::vector<uint64_t>& out) {
  return read_as(key, out, [](const Node& node) {
    return each_of<uint64_t>(node, [](const Node& item) { return item.as_uint(); });
  });
}

Status Fields::read_bytes(std::string_view key, uint64_t& out) {
  return read_as(key, out, [](const Node& node) -> Result<uint64_t> {
    if (node.kind() == Node::Kind::kNumber) return node.as_uint();
    ASSIGN_OR_RETURN(const std::string text, node.as_string());
    return parse_bytes(text);
  });
}

Status Fields::read_choice(std::string_view key, const std::vector<std::string>& choices,
                           std::string& out) {
  return read_as(key, out, [&](const Node& node) -> Result<std::string> {
    ASSIGN_OR_RETURN(std::string word, node.as_string());
    if (std::find(choices.begin(), choices.end(), word) != choices.end()) return word;
    return fail(Errc::kInvalidArgument, "'{}' is not one of {}{}", printable(word),
                join(choices, ", "), did_you_mean(word, choices));
  });
}

Result<Fields> Fields::section(std::string_view key) {
  const Node* node = value_of(key);
  return of(*document_, node == nullptr ? empty_section() : *node, full_name(key));
}

Status Fields::finish() const {
  for (const auto& [name, node] : section_->members()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    return document_->complain(
        Errc::kInvalidArgument, node.line(),
        fmt::format("unknown key '{}'{}", printable(full_name(name)), did_you_mean(name, known_)));
  }
  return {};
}

Error Fields::complain(std::string_view key, std::string_view message) const {
  const Node* node = section_->find(key);
  return document_->complain(Errc::kInvalidArgument,
                             node == nullptr ? section_->line() : node->line(),
                             fmt::format("{}: {}", full_name(key), message));
}

const Node* Fields::value_of(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
  const Node* node = section_->find(key);
  return node == nullptr || node->is_null() ? nullptr : node;
}

Error Fields::missing(std::string_view key) const {
  return document_->complain(Errc::kInvalidArgument, section_->line(),
                             fmt::format("the key '{}' is missing", full_name(key)));
}

Error Fields::at(const Node& node, std::string_view key, const Error& error) const {
  return document_->complain(error.code(), node.line(),
                             fmt::format("{}: {}", full_name(key), error.message()));
}

std::string Fields::full_name(std::string_view key) const {
  return prefix_.empty() ? std::string(key) : fmt::format("{}.{}", prefix_, key);
}

}  // namespace millrace
