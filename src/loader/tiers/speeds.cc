#include "loader/tiers/speeds.h"

#include <algorithm>

namespace millrace::loader::tiers {

void Speeds::Group::add(double more_bytes, double more_seconds) {
  ++reads;
  bytes += more_bytes;
  seconds += more_seconds;
}

// Computes the median once per group, so that a choice only compares two numbers.
void Speeds::Record::close_group() {
  speeds[group_count++ % kGroups] = latest.speed();
  latest = {};
  std::array<double, kGroups> sorted = speeds;
  const auto end = sorted.begin() + std::min(group_count, kGroups);
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;  // the faster one of two
  std::nth_element(sorted.begin(), middle, end);
  usual = *middle;
}

void Speeds::add(Tier tier, uint64_t size_bytes, std::chrono::nanoseconds took) {
  Group read;
  read.add(static_cast<double>(size_bytes), std::chrono::duration<double>(took).count());
  const MutexLock lock(mutex_);
  Record& record = records_[static_cast<size_t>(tier)];
  record.last = read.speed();
  record.latest.add(read.bytes, read.seconds);
  if (record.latest.reads == kGroupReads) record.close_group();
}

double Speeds::bytes_per_second(Tier tier) const {
  const MutexLock lock(mutex_);
  const Record& record = records_[static_cast<size_t>(tier)];
  return record.group_count > 0 ? record.usual : record.latest.speed();
}

bool Speeds::prefers(Tier tier, Tier other) {
  const MutexLock lock(mutex_);
  const Record& one = records_[static_cast<size_t>(tier)];
  const Record& two = records_[static_cast<size_t>(other)];
  if (!one.is_known() || !two.is_known()) return true;
  if (one.usual >= two.usual || one.last > two.usual) return true;
  return ++choices_ % kTrialEvery == 0;
}

}  // namespace millrace::loader::tiers
