// Speeds: how fast each tier has been recently, as seen by its readers. Thread-safe.
//
// Speed is bytes per second of complete reads, including latency and waiting: what a read of a
// typical sample would get. A request that a peer answers with "not here" counts as time without
// bytes, so the speed of a peer includes refusals.
//
// The speed of a tier is the median over its last few groups of reads; the speed of a group is its
// total bytes per total seconds. Not an average over all reads: one read that stalls for seconds
// would outweigh hundreds, and the tier would be abandoned because of it. Not a median of single
// reads either: samples differ in size, and a peer that refuses every other request is half as
// fast, not useless.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/concurrency/mutex.h"

namespace millrace::loader::tiers {

enum class Tier : uint8_t { kMemory, kDisk, kPeer, kSource };
constexpr size_t kTierCount = 4;
constexpr Tier kTiers[kTierCount] = {Tier::kMemory, Tier::kDisk, Tier::kPeer, Tier::kSource};

constexpr std::string_view tier_name(Tier tier) {
  constexpr std::string_view kNames[kTierCount] = {"memory", "disk", "peer", "source"};
  return kNames[static_cast<size_t>(tier)];
}

class Speeds {
 public:
  static constexpr uint32_t kGroupReads = 4;
  static constexpr size_t kGroups = 5;
  // A median of three tolerates one group that stalls; a median of fewer does not.
  static constexpr size_t kGroupsToJudge = 3;
  static constexpr uint64_t kTrialEvery = 64;  // choices

  void add(Tier tier, uint64_t size_bytes, std::chrono::nanoseconds took);

  // 0 if nothing was read from it yet.
  double bytes_per_second(Tier tier) const;

  // Whether to read from `tier` instead of `other`: true unless it is known to be slower. Now and
  // then it chooses the slower one too, because only a read can show that it has become faster, and
  // keeps choosing it as long as such reads are fast.
  bool prefers(Tier tier, Tier other);

 private:
  struct Group {
    uint32_t reads = 0;
    double bytes = 0;
    double seconds = 0;

    void add(double more_bytes, double more_seconds);
    double speed() const { return seconds > 0 ? bytes / seconds : 0; }
  };

  struct Record {
    Group latest;                          // not complete yet
    std::array<double, kGroups> speeds{};  // ring of the complete groups before it
    size_t group_count = 0;                // complete groups so far
    double usual = 0;                      // the median
    double last = 0;                       // of the last read alone

    void close_group();
    bool is_known() const { return group_count >= kGroupsToJudge; }
  };

  mutable Mutex mutex_;
  std::array<Record, kTierCount> records_ GUARDED_BY(mutex_);
  uint64_t choices_ GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::loader::tiers
