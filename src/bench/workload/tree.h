// Tree: combines documents. Every function returns a new Node and leaves its arguments alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/document.h"

namespace millrace::bench {

// The same value, `lines` further down. Documents that are combined have lines of their own, so
// that Document::parts can tell whose a value was.
Node moved_down(const Node& node, uint32_t lines);

// `over` wins. Maps are merged key by key; a list replaces a list.
Node merged(const Node& base, const Node& over);

// {"a": {"b": node}} for the path a, b.
Node wrapped(std::span<const std::string> path, Node node);

// Without the key at `path`; nullopt if it is not there.
std::optional<Node> without(const Node& node, std::span<const std::string> path);

// The value at `path`; nullptr if it is not there.
const Node* find_at(const Node& node, std::span<const std::string> path);

// "a.b" is a, b.
std::vector<std::string> path_of(std::string_view dotted);

}  // namespace millrace::bench
