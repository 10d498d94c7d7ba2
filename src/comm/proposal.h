// Proposal: what a rank is about to do in a collective call. The fold over all ranks shows whether
// the call can proceed.
//
// Before any payload moves, the ranks compare their proposals. So a rank that has failed or ended,
// or two ranks in different calls, are found at the start of a call, on all ranks at once and with
// the same message, and no rank waits for a message that will not come.
//
// Every field is folded by its minimum, independently and in any order, so MPI_MIN can do it.
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
  kEnd,  // the rank takes no further part
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

  void has_failed();                      // for kAgree
  void has_bytes(uint64_t size_bytes);    // on the root of a broadcast
  void fold_with(const Proposal& other);  // what MPI_MIN does with the words
  std::array<uint64_t, kWordCount>& words() { return words_; }

  // ---- on the fold over all ranks ----

  std::optional<Rank> failed_rank() const;  // the lowest one
  uint64_t size_bytes() const { return words_[kSizeBytes]; }

  // Why the calls do not match; `world_size` ranks took part. Success if a rank has failed: its own
  // error is the one to report.
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
    kNotEnded,      // a rank that has not ended, and its call
  };

  std::array<uint64_t, kWordCount> words_ = {};
};

// "rank 2: ..." if there are several ranks.
Error named(Error error, Rank rank, uint32_t world_size);

// Fails unless root < world_size.
Status check_root(Rank root, uint32_t world_size);

// The shape of a reduction of `values`.
CollectiveShape reduction(Collective call, const Values& values, Fold fold, Rank root);

}  // namespace millrace::comm
