// TierSpeeds: how fast each tier has been lately, as its readers saw it.
//
// Bytes over seconds of whole reads, latency and waiting among them, both as moving averages: what
// a read of a usual sample would get. A question that a peer answers with "not here" counts as time
// without bytes, so a peer's speed is that of asking it. Any thread.
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
  void add(Tier tier, uint64_t size_bytes, std::chrono::nanoseconds took);

  // 0 where nothing was read from it yet.
  double bytes_per_second(Tier tier) const;

  // Whether to read from `tier` and not from `other`: it is not known to be slower. Every now and
  // then the slower one is chosen too, since only a read can show that it has become faster.
  bool prefers(Tier tier, Tier other);

 private:
  struct Average {
    uint64_t count = 0;
    double bytes = 0;
    double seconds = 0;
  };
  static double speed(const Average& average) {
    return average.seconds > 0 ? average.bytes / average.seconds : 0;
  }

  mutable std::mutex mutex_;
  std::array<Average, kTierCount> averages_;
  uint64_t choices_ = 0;
};

}  // namespace millrace::loader
