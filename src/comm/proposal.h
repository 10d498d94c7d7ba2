// Proposal: what a rank brings to a collective call, folded with those of all others into a
// verdict.
//
// Before any payload moves, the ranks compare what they are about to do. So a rank that has failed,
// one that ends, and two that have lost step with each other are found at the start of a call, on
// all ranks at once and with the same sentence, and none waits for a message that will not come.
//
// Every field is folded by minimum, alone and in any order: a launcher's own reduction does it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "comm/comm.h"

namespace millrace::comm {

enum class Collective : uint8_t {
  kBarrier,
  kBroadcast,
  kReduce,
  kReduceToAll,
  kGather,
  kAgree,
  kOpenMessages,
  kEnd,  // the rank has no more to do with the others
};

std::string_view collective_name(Collective call);

// What must be the same on all ranks.
struct CollectiveShape {
  Collective call = Collective::kBarrier;
  Rank root = kFirstRank;
  Fold fold = Fold::kSum;
  bool floating_point = false;
  uint64_t value_count = 0;
};

class Proposal {
 public:
  static constexpr size_t kWordCount = 8;

  Proposal() = default;
  Proposal(Rank rank, const CollectiveShape& shape);

  void has_failed();                      // with kAgree
  void has_bytes(uint64_t size_bytes);    // of the root of a broadcast
  void fold_with(const Proposal& other);  // what MPI_MIN does with the words
  std::array<uint64_t, kWordCount>& words() { return words_; }

  // ---- of the fold of all ranks ----

  std::optional<Rank> failed_rank() const;  // the lowest one
  uint64_t size_bytes() const { return words_[kSizeBytes]; }

  // Why the calls do not go together; `world_size` ranks took part. Success also where one has
  // failed: its error is the one to tell.
  Status check(uint32_t world_size) const;

 private:
  enum Word : size_t {
    kFailed,
    kEnded,
    kSizeBytes,
    kLowestCall,
    kHighestCall,  // complemented
    kLowestShape,
    kHighestShape,  // complemented
    kNotEnded,      // a rank that has not ended, with what it calls
  };

  std::array<uint64_t, kWordCount> words_ = {};
};

// "rank 2: ..." where there are several.
Error named(Error error, Rank rank, uint32_t world_size);

// REQUIRES: root < world_size, or it is told so.
Status check_root(Rank root, uint32_t world_size);

// The shape of a reduction of `values`.
CollectiveShape reduction(Collective call, const Values& values, Fold fold, Rank root);

}  // namespace millrace::comm
