// The call tree: calls within calls across the layers, from regions down to system calls.
//
// Nesting follows from the intervals of a thread. Its events are stored in a block in the order in
// which they ended, so reading backwards meets a parent before its children. Regions that end in a
// later block are known beforehand (Context::long_regions). A call that is not a region and ends in
// the next block (at most one chain of them per thread and block) misses its children in this
// block. They are then attached to the region around both, and their time also counts as the call's
// own.
//
// Some formats have times in microseconds, so that consecutive calls seem to begin at once. A call
// therefore nests in a region or in a call of a library above its own layer. It nests in a call of
// its own layer only if it begins later and ends earlier. Nothing nests in system calls, except
// callbacks of a directory walk.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "analyze/block_threads.h"
#include "analyze/calls/call_tree.h"
#include "analyze/calls/loading.h"
#include "analyze/scan.h"
#include "base/concurrency/mutex.h"

namespace millrace::analyze {
namespace {

using trace::EventColumns;
using trace::ThreadIndex;

// Limits the tree of a program with endless recursion.
constexpr size_t kDepthMax = 128;

constexpr uint32_t kNobody = ~uint32_t{0};

// Finds the long regions around a point in time of a thread.
class LongRegions {
 public:
  explicit LongRegions(const std::vector<LongRegion>& regions)
      : regions_(regions), parents_(regions.size(), kNobody) {
    std::vector<uint32_t> open;
    for (uint32_t i = 0; i < regions.size(); ++i) {
      const auto is_around = [&](const LongRegion& other) {
        return other.thread == regions[i].thread && other.end_ns >= regions[i].end_ns;
      };
      while (!open.empty() && !is_around(regions[open.back()])) open.pop_back();
      if (!open.empty()) parents_[i] = open.back();
      open.push_back(i);
    }
  }

  // The innermost region that begins before the event and ends after it, or kNobody. around()
  // returns the next one outwards.
  uint32_t innermost(ThreadIndex thread, uint64_t begin_ns, uint64_t end_ns) const {
    const auto next =
        std::upper_bound(regions_.begin(), regions_.end(), std::pair(thread, begin_ns),
                         [](const auto& of, const LongRegion& region) {
                           return of < std::pair(region.thread, region.begin_ns);
                         });
    if (next == regions_.begin()) return kNobody;
    auto at = static_cast<uint32_t>(next - regions_.begin() - 1);
    if (regions_[at].thread != thread) return kNobody;
    while (at != kNobody && regions_[at].end_ns <= end_ns) at = parents_[at];
    return at;
  }

  const LongRegion& operator[](uint32_t index) const { return regions_[index]; }
  uint32_t around(uint32_t index) const { return parents_[index]; }

 private:
  const std::vector<LongRegion>& regions_;
  std::vector<uint32_t> parents_;
};

bool may_hold_others(wire::Call call) {
  return wire::level_of(call) != wire::Level::kPosix || call == wire::Call::kFtw ||
         call == wire::Call::kNftw || call == wire::Call::kScandir;
}

// A call or region that may contain others.
struct Frame {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint32_t node = CallTree::kRoot;
  wire::Level level = wire::Level::kApp;
  // The child used last: most calls repeat the one before. No call has the key 0.
  uint32_t child = 0;
  CallKey child_key{};
};

struct Event {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  wire::Level level{};
};

bool lies_in(const Event& event, const Frame& frame) {
  if (event.begin_ns < frame.begin_ns || event.end_ns > frame.end_ns) return false;
  if (frame.level > event.level || frame.level == wire::Level::kApp) return true;
  return event.begin_ns > frame.begin_ns && event.end_ns < frame.end_ns;
}

// The frames that may contain an event of a thread, innermost last. With a growing vector instead,
// a fifth of the time was spent here.
class Stack {
 public:
  bool empty() const { return depth_ == 0; }
  bool is_full() const { return depth_ == kDepthMax; }
  Frame& back() { return frames_[depth_ - 1]; }
  void pop() { --depth_; }

  // REQUIRES: !is_full()
  void push(const Frame& frame) {
    if (frames_ == nullptr) frames_ = std::make_unique_for_overwrite<Frame[]>(kDepthMax);
    frames_[depth_++] = frame;
  }

 private:
  std::unique_ptr<Frame[]> frames_;
  size_t depth_ = 0;
};

class BlockNester {
 public:
  BlockNester(const LongRegions& long_regions, const EventColumns& columns)
      : long_regions_(long_regions), columns_(columns), stacks_(columns.thread) {}

  CallTree nest() {
    for (size_t i = columns_.size_events(); i-- > 0;) {
      const wire::Call call = columns_.call[i];
      const CallTraits& traits = traits_of(call);
      if (traits.io) {
        add(i, key_of(call), traits.kind);
      } else if (call == wire::Call::kRegion) {
        add(i, key_of(columns_.file[i]), traits.kind);
      }
    }
    return std::move(tree_);
  }

 private:
  void add(size_t i, CallKey key, wire::CallKind kind) {
    const uint64_t begin_ns = columns_.begin_ns[i];
    const uint64_t duration_ns = columns_.duration_ns[i];
    const bool is_over = duration_ns > std::numeric_limits<uint64_t>::max() - begin_ns;
    const Event event{.begin_ns = begin_ns,
                      .end_ns = is_over ? ~uint64_t{0} : begin_ns + duration_ns,
                      .level = wire::level_of(columns_.call[i])};
    // A region that began on another thread says nothing about the nesting in this one.
    const bool is_foreign = (columns_.flags[i] & wire::kFlagForeignOrigin) != 0;
    Stack& stack = stacks_.of(columns_.thread[i]);
    if (stack.empty()) begin_stack(columns_.thread[i], event, stack);
    uint32_t index = 0;
    if (is_foreign) {
      index = tree_.child(CallTree::kRoot, key);
    } else {
      while (!lies_in(event, stack.back())) stack.pop();
      Frame& parent = stack.back();
      if (parent.child_key != key) {
        parent.child = tree_.child(parent.node, key);
        parent.child_key = key;
      }
      index = parent.child;
      if (may_hold_others(columns_.call[i]) && !stack.is_full()) {
        stack.push(
            {.begin_ns = begin_ns, .end_ns = event.end_ns, .node = index, .level = event.level});
      }
    }
    CallNode& node = tree_.node(index);
    ++node.count;
    node.missing += columns_.error[i] == ENOENT ? 1 : 0;
    node.total_ns += duration_ns;
    if (kind == wire::CallKind::kRead || kind == wire::CallKind::kWrite ||
        kind == wire::CallKind::kTransfer) {
      node.bytes += static_cast<uint64_t>(std::max<int64_t>(columns_.result[i], 0));
    }
  }

  // Pushes the regions around the thread's last event in this block that end in a later block.
  void begin_stack(ThreadIndex thread, const Event& event, Stack& stack) {
    stack.push({.begin_ns = 0, .end_ns = ~uint64_t{0}});
    std::vector<uint32_t> around;
    for (uint32_t at = long_regions_.innermost(thread, event.begin_ns, event.end_ns); at != kNobody;
         at = long_regions_.around(at)) {
      around.push_back(at);
    }
    for (size_t i = around.size(); i-- > 0 && !stack.is_full();) {
      const LongRegion& region = long_regions_[around[i]];
      stack.push({.begin_ns = region.begin_ns,
                  .end_ns = region.end_ns,
                  .node = tree_.child(stack.back().node, key_of(region.name))});
    }
  }

  const LongRegions& long_regions_;
  const EventColumns& columns_;
  BlockThreads<Stack> stacks_;
  CallTree tree_;
};

class TreeMetric final : public Metric {
 public:
  TreeMetric(const Context& context, const Limits& limits)
      : context_(context), nodes_max_(limits.tree_nodes), long_regions_(context.long_regions) {}

  void observe(const Block& block) override {
    const CallTree of_block = BlockNester(long_regions_, block.columns).nest();
    const MutexLock lock(mutex_);
    tree_.add(of_block.nodes());
  }

  void save(std::vector<std::byte>& out) const override {
    const MutexLock lock(mutex_);
    const uint64_t count = tree_.nodes().size();
    const auto put = [&out](ByteView bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
    put(std::as_bytes(std::span(&count, 1)));
    put(std::as_bytes(std::span(tree_.nodes())));
  }

  Status merge(ByteReader& saved) override {
    ASSIGN_OR_RETURN(const auto count, saved.read<uint64_t>());
    if (count == 0 || count > saved.remaining() / sizeof(CallNode)) {
      return fail(Errc::kCorrupt, "a call tree claims {} nodes, but only {} bytes are left", count,
                  saved.remaining());
    }
    ASSIGN_OR_RETURN(const ByteView bytes, saved.take(count * sizeof(CallNode)));
    std::vector<CallNode> nodes(count);
    std::memcpy(nodes.data(), bytes.data(), bytes.size());
    std::vector<uint8_t> depths(count, 0);
    for (size_t i = 1; i < count; ++i) RETURN_IF_ERROR(check(nodes, i, depths));
    const MutexLock lock(mutex_);
    tree_.add(nodes);
    return {};
  }

  void finish(const Context& context, Profile& profile) override {
    const MutexLock lock(mutex_);
    add_loading(tree_, context, profile);
    profile.tree = cut_call_tree(tree_, context, nodes_max_);
  }

 private:
  Status check(const std::vector<CallNode>& nodes, size_t i, std::vector<uint8_t>& depths) const {
    const CallNode& node = nodes[i];
    if (node.parent >= i) {
      return fail(Errc::kCorrupt, "node {} of a call tree has the invalid parent {}", i,
                  node.parent);
    }
    if (node.missing > node.count) {
      return fail(Errc::kCorrupt, "node {} of a call tree has {} calls, but {} failed", i,
                  node.count, node.missing);
    }
    depths[i] = static_cast<uint8_t>(depths[node.parent] + 1);
    if (depths[i] > kDepthMax) {
      return fail(Errc::kCorrupt, "node {} of a call tree is more than {} calls deep", i,
                  kDepthMax);
    }
    const auto number = static_cast<uint64_t>(node.key);
    const bool is_known =
        is_region(node.key)
            ? number >> 32 == 1 && (number & 0xffffffff) < context_.trace.names().size()
            : number < kCallTableSize && is_io(static_cast<wire::Call>(number));
    if (!is_known) {
      return fail(Errc::kCorrupt, "node {} of a call tree has the unknown call {:#x}", i, number);
    }
    return {};
  }

  const Context& context_;
  const size_t nodes_max_;
  const LongRegions long_regions_;
  mutable Mutex mutex_;
  CallTree tree_ GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Metric> make_tree_metric(const Context& context, const Limits& limits) {
  return std::make_unique<TreeMetric>(context, limits);
}

}  // namespace millrace::analyze
