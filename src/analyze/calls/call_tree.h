// CallTree: calls within calls, merged by call path.
//
// A node is a path of calls and regions from the root. Nodes are created when first met, a parent
// before its children. The index of a node depends on the order of events, its contents do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyze/context.h"
#include "analyze/profile/profile.h"
#include "trace/read/columns.h"
#include "wire/trace_call.h"

namespace millrace::analyze {

// What was called: the number of a call or the name of a region. 33 bits.
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
  uint32_t missing = 0;  // calls of count that failed because the file does not exist
};
static_assert(sizeof(CallNode) == 40);

class CallTree {
 public:
  CallTree() : nodes_(1), table_(kTableSizeFirst) {}

  static constexpr uint32_t kRoot = 0;

  const std::vector<CallNode>& nodes() const { return nodes_; }
  CallNode& node(uint32_t index) { return nodes_[index]; }

  // The node of `key` under `parent`, created if missing.
  uint32_t child(uint32_t parent, CallKey key) {
    const uint64_t id = id_of(parent, key);
    for (size_t i = place_of(id);; ++i) {
      const Entry& entry = table_[i & (table_.size() - 1)];
      if (entry.id == id) return entry.index;
      if (entry.id == 0) return make(parent, key);
    }
  }

  // REQUIRES: the first node is a root, and every other node comes after its parent.
  void add(const std::vector<CallNode>& others) {
    std::vector<uint32_t> places(others.size(), kRoot);
    for (size_t i = 1; i < others.size(); ++i) {
      places[i] = child(places[others[i].parent], others[i].key);
      CallNode& to = nodes_[places[i]];
      to.count += others[i].count;
      to.total_ns += others[i].total_ns;
      to.bytes += others[i].bytes;
      to.missing += others[i].missing;
    }
  }

 private:
  static constexpr size_t kTableSizeFirst = 64;

  // A lookup touches only the entry and not the node.
  struct Entry {
    uint64_t id = 0;  // 0: free; no call has the key 0
    uint32_t index = 0;
  };

  // Combines parent and key without loss: there are fewer than 2^31 nodes.
  static uint64_t id_of(uint32_t parent, CallKey key) {
    return uint64_t{parent} << 33 | static_cast<uint64_t>(key);
  }

  static size_t place_of(uint64_t id) { return static_cast<size_t>(id * 0x9e3779b97f4a7c15 >> 32); }

  uint32_t make(uint32_t parent, CallKey key) {
    if (2 * nodes_.size() >= table_.size()) grow();
    const auto index = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({.key = key, .parent = parent});
    enter(index);
    return index;
  }

  void enter(uint32_t index) {
    const uint64_t id = id_of(nodes_[index].parent, nodes_[index].key);
    size_t i = place_of(id);
    while (table_[i & (table_.size() - 1)].id != 0) ++i;
    table_[i & (table_.size() - 1)] = {id, index};
  }

  void grow() {
    table_.assign(4 * table_.size(), {});
    for (uint32_t i = 1; i < nodes_.size(); ++i) enter(i);
  }

  std::vector<CallNode> nodes_;
  std::vector<Entry> table_;  // open addressing; the size is a power of two
};

// Cuts a tree to what a page can show.
// Returns at most `nodes_max` nodes (at least 2) including the root. Each parent comes before its
// children; siblings are sorted by time, longest first. The children of a node that are left out
// become one child named "(other)" with the sums of everything below, so no time is lost.
std::vector<TreeNode> cut_call_tree(const CallTree& tree, const Context& context, size_t nodes_max);

}  // namespace millrace::analyze
