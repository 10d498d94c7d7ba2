#include "loader/tiers/memory.h"

#include <cstring>

namespace millrace::loader::tiers {

using data::index_of;
using data::SampleId;

SampleBytes SampleBytes::copy_of(ByteView bytes) {
  // At least one byte, so that an empty sample differs from a missing one.
  auto data = std::make_shared_for_overwrite<std::byte[]>(bytes.size() + 1);
  if (!bytes.empty()) std::memcpy(data.get(), bytes.data(), bytes.size());
  return {std::move(data), bytes.size()};
}

SampleBytes Memory::find(SampleId sample) const {
  const MutexLock lock(mutex_);
  const auto found = bytes_.find(index_of(sample));
  return found == bytes_.end() ? SampleBytes{} : found->second;
}

bool Memory::offer(SampleId sample, ByteView bytes, UseTime next_use,
                   std::vector<KeptSample>& gone) {
  {
    const MutexLock lock(mutex_);
    if (held_.contains(sample)) return true;
    std::vector<SampleId> victims;
    if (!held_.admit({sample, bytes.size() + kEntryBytes, next_use}, victims)) return false;
    take_out(victims, &gone);
    bytes_[index_of(sample)] = {};
  }
  // Copy without the lock. The room is already reserved, so the capacity is not exceeded.
  SampleBytes copy = SampleBytes::copy_of(bytes);
  const MutexLock lock(mutex_);
  const auto place = bytes_.find(index_of(sample));
  if (place == bytes_.end()) return false;  // dropped in the meantime
  place->second = std::move(copy);
  return true;
}

void Memory::used(SampleId sample, std::optional<UseTime> next_use) {
  const MutexLock lock(mutex_);
  if (next_use) {
    held_.touch(sample, *next_use);
  } else {
    held_.erase(sample);
    bytes_.erase(index_of(sample));
  }
}

void Memory::refresh(UseTime now, const HoldSet::NextUse& next_use) {
  const MutexLock lock(mutex_);
  std::vector<SampleId> gone;
  held_.refresh(now, next_use, gone);
  take_out(gone, nullptr);
}

void Memory::take_out(std::span<const SampleId> samples, std::vector<KeptSample>* gone) {
  for (const SampleId sample : samples) {
    const auto found = bytes_.find(index_of(sample));
    if (found == bytes_.end()) continue;
    if (gone != nullptr && found->second) gone->push_back({sample, std::move(found->second)});
    bytes_.erase(found);
  }
}

uint64_t Memory::used_bytes() const {
  const MutexLock lock(mutex_);
  return held_.used_bytes();
}

uint64_t Memory::count() const {
  const MutexLock lock(mutex_);
  return held_.count();
}

}  // namespace millrace::loader::tiers
