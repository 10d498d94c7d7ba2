// Placement: which nodes of a job hold which partitions.
//
// Partition p belongs to rank p mod N and, with R replicas, to the R-1 ranks after it. A broadcast
// partition belongs to every rank. So any number of partitions works on any number of nodes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/comm.h"
#include "store/pack/catalogue.h"

namespace millrace::store {

class Placement {
 public:
  // The catalogue must live longer.
  Placement(const Catalogue& catalogue, uint32_t rank_count, uint32_t replica_count)
      : catalogue_(catalogue),
        rank_count_(rank_count),
        replica_count_(std::clamp(replica_count, uint32_t{1}, rank_count)) {}

  uint32_t replica_count() const { return replica_count_; }

  bool is_everywhere(uint32_t partition) const {
    return catalogue_.partition(partition).kind == wire::PartitionKind::kBroadcast;
  }

  // REQUIRES: replica < replica_count(), and the partition is not everywhere
  comm::Rank holder(uint32_t partition, uint32_t replica) const {
    return static_cast<comm::Rank>((uint64_t{partition} + replica) % rank_count_);
  }

  bool holds(comm::Rank rank, uint32_t partition) const {
    const uint32_t first = partition % rank_count_;
    const uint32_t after = (comm::index_of(rank) + rank_count_ - first) % rank_count_;
    return is_everywhere(partition) || after < replica_count_;
  }

 private:
  const Catalogue& catalogue_;
  uint32_t rank_count_;
  uint32_t replica_count_;
};

}  // namespace millrace::store
