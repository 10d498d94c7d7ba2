#include "loader/tiers/speed.h"

#include <algorithm>

namespace millrace::loader {
namespace {

constexpr uint64_t kMemoryOfReads = 64;  // an average follows a change within about so many reads
constexpr uint64_t kTrialEvery = 64;     // choices

}  // namespace

void TierSpeeds::add(Tier tier, uint64_t size_bytes, std::chrono::nanoseconds took) {
  const std::lock_guard lock(mutex_);
  Average& average = averages_[static_cast<size_t>(tier)];
  average.count = std::min(average.count + 1, kMemoryOfReads);
  const double weight = 1.0 / static_cast<double>(average.count);
  const double seconds = std::chrono::duration<double>(took).count();
  average.bytes += weight * (static_cast<double>(size_bytes) - average.bytes);
  average.seconds += weight * (seconds - average.seconds);
}

double TierSpeeds::bytes_per_second(Tier tier) const {
  const std::lock_guard lock(mutex_);
  return speed(averages_[static_cast<size_t>(tier)]);
}

bool TierSpeeds::prefers(Tier tier, Tier other) {
  const std::lock_guard lock(mutex_);
  const Average& one = averages_[static_cast<size_t>(tier)];
  const Average& two = averages_[static_cast<size_t>(other)];
  if (one.count == 0 || two.count == 0) return true;
  if (speed(one) >= speed(two)) return true;
  return ++choices_ % kTrialEvery == 0;
}

}  // namespace millrace::loader
