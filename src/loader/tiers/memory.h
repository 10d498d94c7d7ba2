// MemoryTier: encoded samples kept in this process' memory, at most so many bytes. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/base.h"
#include "loader/tiers/hold_set.h"

namespace millrace::loader {

// The bytes of a sample; shared by a tier and those who copy from it while it may let go of them.
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

class MemoryTier {
 public:
  // What a sample costs beside its bytes: entries in two tables, and the allocator's own.
  static constexpr uint64_t kEntryBytes = 256;

  explicit MemoryTier(uint64_t capacity_bytes) : held_(capacity_bytes) {}

  // Null where it is not held.
  SampleBytes find(data::SampleId sample) const;

  // Keeps a copy where the next use makes it worth it; what had to go is added to `gone`. Whether
  // it is held now.
  bool offer(data::SampleId sample, ByteView bytes, UseTime next_use,
             std::vector<KeptSample>& gone);

  // It was used, and will be again then, or never.
  void used(data::SampleId sample, std::optional<UseTime> next_use);

  void refresh(UseTime now, const HoldSet::NextUse& next_use);

  uint64_t used_bytes() const;
  uint64_t count() const;

 private:
  void take_out(std::span<const data::SampleId> samples, std::vector<KeptSample>* gone);

  mutable std::mutex mutex_;
  HoldSet held_;
  std::unordered_map<uint64_t, SampleBytes> bytes_;  // null while they are copied
};

}  // namespace millrace::loader
