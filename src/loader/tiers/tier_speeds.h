// TierSpeeds: how fast each tier has been lately, as its readers saw it.
//
// Bytes over seconds of whole reads, latency and waiting among them: what a read of a usual sample
// would get. A question that a peer answers with "not here" counts as time without bytes, so a
// peer's speed is that of asking it. Any thread.
//
// A tier's speed is the median of its last few groups of reads, a group's the sum of its bytes over
// the sum of its seconds. Not an average over all: one read that stalls for seconds would outweigh
// hundreds, and the tier be left for it. Not a median of single reads either: samples differ in
// size, and a peer that refuses every other question is half as fast, and not useless.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace millrace::loader {

enum class Tier : uint8_t { kMemory, kDisk, kPeer, kSource };
constexpr size_t kTierCount = 4;
constexpr Tier kTiers[kTierCount] = {Tier::kMemory, Tier::kDisk, Tier::kPeer, Tier::kSource};

constexpr std::string_view tier_name(Tier tier) {
  constexpr std::string_view kNames[kTierCount] = {"memory", "disk", "peer", "source"};
  return kNames[static_cast<size_t>(tier)];
}

class TierSpeeds {
 public:
  static constexpr uint32_t kGroupReads = 4;
  static constexpr size_t kGroups = 5;
  // A median of three stands one group that stalls; of fewer, it is whatever they were.
  static constexpr size_t kGroupsToJudge = 3;
  static constexpr uint64_t kTrialEvery = 64;  // choices

  void add(Tier tier, uint64_t size_bytes, std::chrono::nanoseconds took);

  // 0 where nothing was read from it yet.
  double bytes_per_second(Tier tier) const;

  // Whether to read from `tier` and not from `other`: it is not known to be slower. Every now and
  // then the slower one is chosen too, since only a read can show that it has become faster; and
  // again at once for as long as such reads are fast.
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
    Group latest;                          // not whole yet
    std::array<double, kGroups> speeds{};  // of the groups before, in a ring
    size_t group_count = 0;                // so far
    double usual = 0;                      // the median
    double last = 0;                       // of the last read alone

    void close_group();
    bool is_known() const { return group_count >= kGroupsToJudge; }
  };

  mutable std::mutex mutex_;
  std::array<Record, kTierCount> records_;
  uint64_t choices_ = 0;
};

}  // namespace millrace::loader
