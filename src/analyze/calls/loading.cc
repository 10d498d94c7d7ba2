#include "analyze/calls/loading.h"

#include <algorithm>
#include <vector>

#include "analyze/call_traits.h"

namespace millrace::analyze {
namespace {

using wire::CallKind;

bool is_library(Layer layer) { return layer == Layer::kFormat || layer == Layer::kMpiio; }

class LoadingSums {
 public:
  LoadingSums(const CallTree& tree, const Context& context, Loading& loading)
      : nodes_(tree.nodes()), context_(context), loading_(loading) {}

  void add_all() {
    std::vector<uint64_t> self_ns(nodes_.size());
    for (size_t i = nodes_.size(); i-- > 1;) {
      self_ns[i] += nodes_[i].total_ns;
      uint64_t& parent_ns = self_ns[nodes_[i].parent];
      parent_ns -= nodes_[i].total_ns;  // may wrap around until the parent adds its own time
    }
    std::vector<bool> in_work(nodes_.size(), false);
    for (size_t i = 1; i < nodes_.size(); ++i) {
      const CallNode& node = nodes_[i];
      const bool is_inner = in_work[node.parent];
      in_work[i] = is_inner || is_work(node.key);
      if (!in_work[i]) continue;
      if (!is_inner) add_work(node);
      // Children that overlap their parent's end can make the sum of theirs longer than its own.
      const uint64_t own_ns = self_ns[i] > node.total_ns ? 0 : self_ns[i];
      part_of(node.key) += own_ns;
      if (uint64_t* code_ns = code_of(node.key)) *code_ns += own_ns;
      if (!is_region(node.key)) count(node);
    }
    finish();
  }

 private:
  Role role_of(CallKey key) const {
    return is_region(key) ? context_.role(region_of(key)) : Role::kNone;
  }
  static trace::NameIndex region_of(CallKey key) {
    return trace::NameIndex{static_cast<uint32_t>(static_cast<uint64_t>(key))};
  }
  static const CallTraits& traits_of_key(CallKey key) {
    return traits_of(static_cast<wire::Call>(static_cast<uint64_t>(key)));
  }

  bool is_work(CallKey key) const {
    const Role role = role_of(key);
    return role == Role::kFetch || role == Role::kRead;
  }

  void add_work(const CallNode& node) {
    loading_.work_ns += node.total_ns;
    if (role_of(node.key) != Role::kFetch) return;
    loading_.batches += node.count;
    fetch_ns_ += node.total_ns;
  }

  // The field that the own time of a call or region belongs to.
  uint64_t& part_of(CallKey key) {
    if (is_region(key)) {
      switch (role_of(key)) {
        case Role::kTransform:
          return loading_.transform_ns;
        case Role::kCollate:
          return loading_.collate_ns;
        default:
          return loading_.other_ns;
      }
    }
    const CallTraits& traits = traits_of_key(key);
    if (is_library(traits.layer)) return loading_.library_ns;
    switch (traits.kind) {
      case CallKind::kRead:
      case CallKind::kTransfer:
        return loading_.read_ns;
      case CallKind::kOpen:
      case CallKind::kClose:
      case CallKind::kSeek:
      case CallKind::kMetadata:
      case CallKind::kDirectory:
      case CallKind::kMap:
      case CallKind::kDuplicate:
        return loading_.metadata_ns;
      default:
        return loading_.other_ns;
    }
  }

  // The field for code of a known kind, which is part of other_ns; null if there is none.
  uint64_t* code_of(CallKey key) {
    switch (role_of(key)) {
      case Role::kDecode:
        return &loading_.decode_ns;
      case Role::kDecompress:
        return &loading_.decompress_ns;
      case Role::kParse:
        return &loading_.parse_ns;
      default:
        return nullptr;
    }
  }

  // A call within one of the same kind and library is part of it: the read of a fread.
  bool is_part(const CallNode& node) const {
    const CallKey parent = nodes_[node.parent].key;
    if (node.parent == CallTree::kRoot || is_region(parent)) return false;
    return traits_of_key(parent).kind == traits_of_key(node.key).kind &&
           is_library(traits_of_key(parent).layer) == is_library(traits_of_key(node.key).layer);
  }

  void count(const CallNode& node) {
    const CallTraits& traits = traits_of_key(node.key);
    if (is_part(node)) return;
    if (is_library(traits.layer)) {
      if (traits.kind != CallKind::kRead) return;
      loading_.library_reads += node.count;
      loading_.library_bytes += node.bytes;
      return;
    }
    if (traits.opens) {
      // One that fails says only that the file does not exist, as stat does.
      loading_.opens += node.count - node.missing;
      loading_.stats += node.missing;
      loading_.missing += node.missing;
    }
    if (traits.kind == CallKind::kRead) loading_.reads += node.count;
    if (traits.kind == CallKind::kMetadata) {
      loading_.stats += node.count;
      loading_.missing += node.missing;
    }
    if (traits.kind == CallKind::kDirectory) loading_.lists += node.count;
  }

  void finish() {
    if (loading_.batches > 0) loading_.fetch_mean_ns = fetch_ns_ / loading_.batches;
    // What the parts lack belongs to none of them.
    const uint64_t known_ns = loading_.read_ns + loading_.metadata_ns + loading_.library_ns +
                              loading_.transform_ns + loading_.collate_ns;
    loading_.other_ns = loading_.work_ns - std::min(loading_.work_ns, known_ns);
  }

  const std::vector<CallNode>& nodes_;
  const Context& context_;
  Loading& loading_;
  uint64_t fetch_ns_ = 0;
};

}  // namespace

void add_loading(const CallTree& tree, const Context& context, Profile& profile) {
  LoadingSums(tree, context, profile.loading).add_all();
  uint64_t busy_ns = 0;  // while there was any fetch
  for (const TimeSplit& rank : profile.time.ranks) busy_ns += rank.fetch_ns;
  if (busy_ns == 0) return;
  profile.loading.in_flight =
      static_cast<double>(profile.loading.work_ns) / static_cast<double>(busy_ns);
}

}  // namespace millrace::analyze
