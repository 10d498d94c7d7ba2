#include "store/pack/plan.h"

#include <algorithm>
#include <queue>

#include "base/bytes.h"
#include "base/hash/crc32c.h"
#include "base/text/text.h"
#include "hook/glob.h"

namespace millrace::store {
namespace {

using wire::CatalogueEntry;
using wire::EntryKind;
using wire::PartitionKind;

constexpr uint64_t kDefaultPartitionBytes = uint64_t{1} << 30;
constexpr uint32_t kPartitionMax = 99'999;

// What two ranks need to agree on; followed by entries, names, pairs, kinds and the origin.
struct PlanSizes {
  uint64_t entry_count;
  uint64_t names_bytes;
  uint64_t pair_count;
  uint64_t partition_count;
  uint64_t origin_bytes;
  uint64_t identity;
};

template <typename T>
void append_all(std::string& out, const std::vector<T>& values) {
  out += text_of(std::as_bytes(std::span(values)));
}

template <typename T>
Status read_all(ByteReader& reader, uint64_t count, std::vector<T>& out) {
  if (count > reader.remaining() / sizeof(T)) {
    return fail(Errc::kCorrupt, "the plan of rank 0 is truncated");
  }
  ASSIGN_OR_RETURN(const ByteView bytes, reader.take(static_cast<size_t>(count) * sizeof(T)));
  out.resize(static_cast<size_t>(count));
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return {};
}

// Marks the files that the globs choose. Every glob must choose something: a typing error would
// otherwise be noticed only when the files are missed.
Status mark_broadcast(Tree& tree, const std::vector<std::string>& globs) {
  if (globs.empty()) return {};
  std::vector<bool> is_used(globs.size());
  for (uint32_t i = 0; i < tree.entries.size(); ++i) {
    CatalogueEntry& entry = tree.entries[i];
    if (entry.kind != EntryKind::kFile) continue;
    const std::string path = tree.path(i);
    for (size_t g = 0; g < globs.size(); ++g) {
      if (!hook::glob_matches(globs[g], path)) continue;
      entry.flags |= wire::kEntryBroadcast;
      is_used[g] = true;
    }
  }
  for (size_t g = 0; g < globs.size(); ++g) {
    if (is_used[g]) continue;
    return fail(Errc::kInvalidArgument,
                "--broadcast '{}' matches no file; give a glob of paths below the source, such as "
                "'val/**'",
                printable(globs[g]));
  }
  return {};
}

// The files to place, largest first. Names of a file that has another name are left out.
std::vector<uint32_t> by_size(const Tree& tree) {
  std::vector<uint32_t> files;
  size_t pair = 0;  // pairs are in the order of the entries
  for (uint32_t i = 0; i < tree.entries.size(); ++i) {
    if (tree.entries[i].kind != EntryKind::kFile) continue;
    if (pair < tree.same_file.size() && tree.same_file[pair].entry == i) {
      ++pair;
      continue;
    }
    files.push_back(i);
  }
  std::stable_sort(files.begin(), files.end(), [&](uint32_t a, uint32_t b) {
    return tree.entries[a].size_bytes > tree.entries[b].size_bytes;
  });
  return files;
}

void place_files(Tree& tree, uint32_t partition_count) {
  // A file costs something even if it is empty: its place in the index.
  constexpr uint64_t kFileCost = 128;
  using Load = std::pair<uint64_t, uint32_t>;  // bytes, partition
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (uint32_t i = 0; i < partition_count; ++i) loads.emplace(0, i);
  for (const uint32_t index : by_size(tree)) {
    CatalogueEntry& entry = tree.entries[index];
    if ((entry.flags & wire::kEntryBroadcast) != 0) {
      entry.partition = partition_count;
      continue;
    }
    auto [bytes, partition] = loads.top();
    loads.pop();
    entry.partition = partition;
    loads.emplace(bytes + entry.size_bytes + kFileCost, partition);
  }
  for (const auto& [index, first] : tree.same_file) {
    tree.entries[index].partition = tree.entries[first].partition;
    tree.entries[index].flags = tree.entries[first].flags;
  }
}

// Of two names of a file, either may be the one that a glob chooses.
void share_broadcast(Tree& tree) {
  for (const auto& [index, first] : tree.same_file) {
    const uint8_t flags = tree.entries[index].flags | tree.entries[first].flags;
    tree.entries[index].flags = tree.entries[first].flags = flags;
  }
}

uint64_t identity_of(const PackPlan& plan, CodecChoice codec) {
  const uint32_t kinds = crc32c(std::as_bytes(std::span(plan.partitions)));
  const uint32_t entries = crc32c(std::as_bytes(std::span(plan.tree.entries)), kinds);
  const uint32_t names = crc32c(bytes_of(plan.tree.names), static_cast<uint32_t>(codec));
  return uint64_t{entries} << 32 | names;
}

}  // namespace

Result<PackPlan> make_plan(Tree tree, const PackOptions& options) {
  RETURN_IF_ERROR(mark_broadcast(tree, options.broadcast));
  share_broadcast(tree);
  uint64_t bytes = 0;
  bool has_broadcast = false;
  for (const CatalogueEntry& entry : tree.entries) {
    if (entry.kind != EntryKind::kFile) continue;
    const bool is_broadcast = (entry.flags & wire::kEntryBroadcast) != 0;
    has_broadcast = has_broadcast || is_broadcast;
    if (!is_broadcast) bytes += entry.size_bytes;
  }
  uint64_t count = options.partition_count;
  if (count == 0) {
    count = std::clamp<uint64_t>((bytes + kDefaultPartitionBytes - 1) / kDefaultPartitionBytes, 1,
                                 kPartitionMax);
  }
  if (count > kPartitionMax) {
    return fail(Errc::kInvalidArgument, "a pack has at most {} partitions, not {}", kPartitionMax,
                count);
  }
  PackPlan plan{.tree = std::move(tree), .origin = {}};
  plan.partitions.assign(count, PartitionKind::kPack);
  if (has_broadcast) plan.partitions.push_back(PartitionKind::kBroadcast);
  place_files(plan.tree, static_cast<uint32_t>(count));
  plan.identity = identity_of(plan, options.codec);
  return plan;
}

std::string partition_name(const PackPlan& plan, uint32_t number) {
  if (plan.partitions[number] == PartitionKind::kBroadcast) return "broadcast.pack";
  return fmt::format("part-{:05}.pack", number);
}

std::string encode_plan(const PackPlan& plan) {
  const std::vector<PlanSizes> sizes = {{.entry_count = plan.tree.entries.size(),
                                         .names_bytes = plan.tree.names.size(),
                                         .pair_count = plan.tree.same_file.size(),
                                         .partition_count = plan.partitions.size(),
                                         .origin_bytes = plan.origin.size(),
                                         .identity = plan.identity}};
  std::string out;
  append_all(out, sizes);
  append_all(out, plan.tree.entries);
  append_all(out, plan.tree.same_file);
  append_all(out, plan.partitions);
  out += plan.tree.names;
  out += plan.origin;
  return out;
}

Result<PackPlan> decode_plan(std::string_view bytes) {
  ByteReader reader(bytes_of(bytes));
  ASSIGN_OR_RETURN(const PlanSizes sizes, reader.read<PlanSizes>());
  PackPlan plan;
  RETURN_IF_ERROR(read_all(reader, sizes.entry_count, plan.tree.entries));
  RETURN_IF_ERROR(read_all(reader, sizes.pair_count, plan.tree.same_file));
  RETURN_IF_ERROR(read_all(reader, sizes.partition_count, plan.partitions));
  ASSIGN_OR_RETURN(plan.tree.names, reader.take_text(sizes.names_bytes));
  ASSIGN_OR_RETURN(plan.origin, reader.take_text(sizes.origin_bytes));
  plan.identity = sizes.identity;
  return plan;
}

}  // namespace millrace::store
