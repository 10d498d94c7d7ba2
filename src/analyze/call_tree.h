// CallTree: calls within calls, merged by what was called from where.
//
// A node is a place: a path of calls and regions from the root. Nodes are made as they are met, a
// parent before its children; which index a place gets depends on who came first, what it holds
// does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/columns.h"
#include "wire/trace_call.h"

namespace millrace::analyze {

// What was called: a call by its number, a region by its name. 33 bits.
enum class CallKey : uint64_t {};

constexpr CallKey key_of(wire::Call call) { return CallKey{static_cast<uint64_t>(call)}; }
constexpr CallKey key_of(trace::NameIndex region) {
  return CallKey{uint64_t{1} << 32 | static_cast<uint64_t>(region)};
}
constexpr bool is_region(CallKey key) { return static_cast<uint64_t>(key) >> 32 != 0; }

struct CallNode {
  CallKey key{};
  uint64_t count = 0;
  uint64_t total_ns = 0;
  uint64_t bytes = 0;
  uint32_t parent = 0;
  uint32_t reserved = 0;  // nodes are saved as their bytes lie
};
static_assert(sizeof(CallNode) == 40);

class CallTree {
 public:
  CallTree() : nodes_(1), table_(kTableSizeFirst, 0) {}

  static constexpr uint32_t kRoot = 0;

  const std::vector<CallNode>& nodes() const { return nodes_; }
  CallNode& node(uint32_t index) { return nodes_[index]; }

  // The node of `key` under `parent`, made if it is not there.
  uint32_t child(uint32_t parent, CallKey key) {
    for (size_t i = place_of(parent, key);; ++i) {
      const uint32_t found = table_[i & (table_.size() - 1)];
      if (found == 0) return make(parent, key);
      if (nodes_[found].parent == parent && nodes_[found].key == key) return found;
    }
  }

  // REQUIRES: the first is a root, and every other one's parent stands before it.
  void add(const std::vector<CallNode>& others) {
    std::vector<uint32_t> places(others.size(), kRoot);
    for (size_t i = 1; i < others.size(); ++i) {
      places[i] = child(places[others[i].parent], others[i].key);
      CallNode& to = nodes_[places[i]];
      to.count += others[i].count;
      to.total_ns += others[i].total_ns;
      to.bytes += others[i].bytes;
    }
  }

 private:
  static constexpr size_t kTableSizeFirst = 64;

  size_t place_of(uint32_t parent, CallKey key) const {
    const uint64_t mixed =
        (static_cast<uint64_t>(key) ^ uint64_t{parent} << 33) * 0x9e3779b97f4a7c15;
    return static_cast<size_t>(mixed >> 32);
  }

  uint32_t make(uint32_t parent, CallKey key) {
    if (2 * nodes_.size() >= table_.size()) grow();
    const auto index = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({.key = key, .parent = parent});
    enter(index);
    return index;
  }

  void enter(uint32_t index) {
    size_t i = place_of(nodes_[index].parent, nodes_[index].key);
    while (table_[i & (table_.size() - 1)] != 0) ++i;
    table_[i & (table_.size() - 1)] = index;
  }

  void grow() {
    table_.assign(4 * table_.size(), 0);
    for (uint32_t i = 1; i < nodes_.size(); ++i) enter(i);
  }

  std::vector<CallNode> nodes_;
  std::vector<uint32_t> table_;  // open addressing, a power of two; 0: free
};

}  // namespace millrace::analyze
