#include "analyze/calls/call_tree.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace millrace::analyze {
namespace {

struct Labelled {
  std::string_view name;
  Layer layer{};
};

Labelled label(CallKey key, const Context& context) {
  const auto number = static_cast<uint64_t>(key);
  if (is_region(key)) {
    const trace::NameIndex name{static_cast<uint32_t>(number)};
    const std::string_view text = context.trace.name(name);
    return {text.empty() ? "(unnamed)" : text, layer_of(context.role(name))};
  }
  const auto call = static_cast<wire::Call>(number);
  return {wire::call_info(call)->name, traits_of(call).layer};
}

class Cutter {
 public:
  Cutter(const CallTree& tree, const Context& context)
      : nodes_(tree.nodes()),
        children_(nodes_.size()),
        weight_(nodes_.size(), 0),
        rank_(nodes_.size(), 0),
        labels_(nodes_.size()) {
    for (uint32_t i = 1; i < nodes_.size(); ++i) {
      labels_[i] = label(nodes_[i].key, context);
      children_[nodes_[i].parent].push_back(i);
    }
    // Children come after their parents. A parent weighs at least as much as each child. Otherwise
    // a child could be kept without its parent: a region that was never ended has no time of its
    // own.
    for (size_t i = nodes_.size(); i-- > 1;) {
      weight_[i] = std::max(weight_[i], nodes_[i].total_ns);
      uint64_t& above = weight_[nodes_[i].parent];
      above = std::max(above, weight_[i]);
    }
    for (auto& list : children_) {
      std::sort(list.begin(), list.end(),
                [this](uint32_t a, uint32_t b) { return order(a) < order(b); });
    }
  }

  std::vector<TreeNode> cut(size_t nodes_max) {
    rank_nodes();
    // Find the largest number of kept nodes that fits together with the folded ones. Keeping one
    // more node adds one and may add or save one folded node, so the sum never decreases.
    size_t least = 1;
    size_t most = std::min(nodes_.size(), std::max<size_t>(nodes_max, 2));
    while (least < most) {
      const size_t middle = (least + most + 1) / 2;
      if (middle + folded_count(middle) <= std::max<size_t>(nodes_max, 2)) {
        least = middle;
      } else {
        most = middle - 1;
      }
    }
    kept_count_ = least;
    put(CallTree::kRoot, 0);
    out_[0].self_ns = 0;
    return std::move(out_);
  }

 private:
  std::tuple<uint64_t, std::string_view, Layer, CallKey> order(uint32_t i) const {
    return {~nodes_[i].total_ns, labels_[i].name, labels_[i].layer, nodes_[i].key};
  }

  // Ranks the nodes by weight, heaviest first, parents before children.
  void rank_nodes() {
    std::vector<uint32_t> preorder;
    std::vector<uint32_t> open{CallTree::kRoot};
    while (!open.empty()) {
      const uint32_t at = open.back();
      open.pop_back();
      preorder.push_back(at);
      open.insert(open.end(), children_[at].rbegin(), children_[at].rend());
    }
    const auto heavier = [this](uint32_t a, uint32_t b) { return weight_[a] > weight_[b]; };
    // The root stays first, whatever its weight.
    std::stable_sort(preorder.begin() + 1, preorder.end(), heavier);
    for (size_t i = 0; i < preorder.size(); ++i) rank_[preorder[i]] = i;
  }

  size_t folded_count(size_t kept_count) const {
    size_t count = 0;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (rank_[i] >= kept_count) continue;
      count += std::any_of(children_[i].begin(), children_[i].end(),
                           [&](uint32_t child) { return rank_[child] >= kept_count; });
    }
    return count;
  }

  // The metric limits the depth, and so the recursion.
  void put(uint32_t i, uint32_t parent) {
    const auto place = static_cast<uint32_t>(out_.size());
    out_.push_back({.name = std::string(labels_[i].name),
                    .layer = labels_[i].layer,
                    .parent = parent,
                    .count = nodes_[i].count,
                    .total_ns = nodes_[i].total_ns,
                    .self_ns = 0,
                    .bytes = nodes_[i].bytes});
    TreeNode other{.name = "(other)", .parent = place};
    uint64_t children_ns = 0;
    for (const uint32_t child : children_[i]) {
      if (rank_[child] < kept_count_) {
        put(child, place);
      } else {
        if (other.count == 0 && other.total_ns == 0) other.layer = labels_[child].layer;
        other.total_ns += nodes_[child].total_ns;
        fold(child, other);
      }
      children_ns += nodes_[child].total_ns;
    }
    if (i == CallTree::kRoot) out_[place].total_ns = children_ns;
    const uint64_t total_ns = out_[place].total_ns;
    out_[place].self_ns = total_ns - std::min(total_ns, children_ns);
    other.self_ns = other.total_ns;
    if (folds_any(i)) out_.push_back(std::move(other));
  }

  bool folds_any(uint32_t i) const {
    return std::any_of(children_[i].begin(), children_[i].end(),
                       [this](uint32_t child) { return rank_[child] >= kept_count_; });
  }

  void fold(uint32_t i, TreeNode& other) const {
    other.count += nodes_[i].count;
    other.bytes += nodes_[i].bytes;
    for (const uint32_t child : children_[i]) fold(child, other);
  }

  const std::vector<CallNode>& nodes_;
  std::vector<std::vector<uint32_t>> children_;
  std::vector<uint64_t> weight_;
  std::vector<size_t> rank_;  // 0 is the root
  std::vector<Labelled> labels_;
  size_t kept_count_ = 0;
  std::vector<TreeNode> out_;
};

}  // namespace

std::vector<TreeNode> cut_call_tree(const CallTree& tree, const Context& context,
                                    size_t nodes_max) {
  return Cutter(tree, context).cut(nodes_max);
}

}  // namespace millrace::analyze
