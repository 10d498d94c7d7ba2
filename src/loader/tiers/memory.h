// Memory: keeps encoded samples in memory, within a capacity. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/base.h"
#include "base/concurrency/mutex.h"
#include "loader/tiers/hold_set.h"

namespace millrace::loader::tiers {

// The bytes of a sample; shared by a tier and its readers, because the tier may drop them while a
// reader copies.
struct SampleBytes {
  std::shared_ptr<const std::byte[]> data;
  size_t size_bytes = 0;

  explicit operator bool() const { return data != nullptr; }
  ByteView view() const { return {data.get(), size_bytes}; }
  static SampleBytes copy_of(ByteView bytes);
};

struct KeptSample {
  data::SampleId sample{};
  SampleBytes bytes;
};

class Memory {
 public:
  // The cost of a sample besides its bytes: entries in two tables, and allocator overhead.
  static constexpr uint64_t kEntryBytes = 256;

  explicit Memory(uint64_t capacity_bytes) : held_(capacity_bytes) {}

  // Null if it is not held.
  SampleBytes find(data::SampleId sample) const;

  // Keeps a copy if the next use is soon enough, and appends samples dropped for it to `gone`.
  // Returns whether the sample is held now.
  bool offer(data::SampleId sample, ByteView bytes, UseTime next_use,
             std::vector<KeptSample>& gone);

  // Reports a use of the sample, and when the next one is; nullopt: never.
  void used(data::SampleId sample, std::optional<UseTime> next_use);

  void refresh(UseTime now, const HoldSet::NextUse& next_use);

  uint64_t used_bytes() const;
  uint64_t count() const;

 private:
  void take_out(std::span<const data::SampleId> samples, std::vector<KeptSample>* gone)
      REQUIRES(mutex_);

  mutable Mutex mutex_;
  HoldSet held_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, SampleBytes> bytes_ GUARDED_BY(mutex_);  // null while being copied
};

}  // namespace millrace::loader::tiers
