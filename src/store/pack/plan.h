// plan: which file goes into which partition.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/pack/packer.h"
#include "store/pack/tree.h"

namespace millrace::store {

// The same on all ranks. A complete pack has partitions.size() partitions.
struct PackPlan {
  Tree tree;  // entries have their partition and flags
  std::vector<wire::PartitionKind> partitions;
  std::string origin;
  uint64_t identity = 0;
};

// Balances the bytes: the largest file first, each into the partition with the fewest bytes.
// Depends only on the tree and the options.
Result<PackPlan> make_plan(Tree tree, const PackOptions& options);

// "part-00007.pack", "broadcast.pack".
std::string partition_name(const PackPlan& plan, uint32_t number);

// For the other ranks.
std::string encode_plan(const PackPlan& plan);
Result<PackPlan> decode_plan(std::string_view bytes);

}  // namespace millrace::store
