#include "bench/workload/tree.h"

#include <algorithm>
#include <unordered_map>

namespace millrace::bench {

Node moved_down(const Node& node, uint32_t lines) {
  Node out(node.kind(), node.line() + lines, node.text());
  for (const Node& item : node.items()) out.add(moved_down(item, lines));
  for (const auto& [name, member] : node.members()) out.add(name, moved_down(member, lines));
  return out;
}

Node merged(const Node& base, const Node& over) {
  if (base.kind() != Node::Kind::kMap || over.kind() != Node::Kind::kMap) return over;
  std::unordered_map<std::string_view, const Node*> changes;
  for (const auto& [name, member] : over.members()) changes.emplace(name, &member);
  Node out(Node::Kind::kMap, over.line());
  for (const auto& [name, member] : base.members()) {
    const auto change = changes.find(name);
    if (change == changes.end()) {
      out.add(name, member);
    } else {
      out.add(name, merged(member, *change->second));
      changes.erase(change);
    }
  }
  for (const auto& [name, member] : over.members()) {
    if (changes.contains(name)) out.add(name, member);
  }
  return out;
}

Node wrapped(std::span<const std::string> path, Node node) {
  for (auto name = path.rbegin(); name != path.rend(); ++name) {
    Node outer(Node::Kind::kMap, node.line());
    outer.add(*name, std::move(node));
    node = std::move(outer);
  }
  return node;
}

std::optional<Node> without(const Node& node, std::span<const std::string> path) {
  if (path.empty() || find_at(node, path) == nullptr) return std::nullopt;
  Node out(Node::Kind::kMap, node.line());
  for (const auto& [name, member] : node.members()) {
    if (name != path.front()) {
      out.add(name, member);
    } else if (path.size() > 1) {
      out.add(name, *without(member, path.subspan(1)));
    }
  }
  return out;
}

const Node* find_at(const Node& node, std::span<const std::string> path) {
  const Node* at = &node;
  for (const std::string& name : path) {
    at = at->find(name);
    if (at == nullptr) return nullptr;
  }
  return at;
}

std::vector<std::string> path_of(std::string_view dotted) {
  std::vector<std::string> out;
  while (true) {
    const size_t end = std::min(dotted.find('.'), dotted.size());
    out.emplace_back(dotted.substr(0, end));
    if (end == dotted.size()) return out;
    dotted.remove_prefix(end + 1);
  }
}

}  // namespace millrace::bench
